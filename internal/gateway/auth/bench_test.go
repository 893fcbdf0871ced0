package auth

import "testing"

func BenchmarkVerify(b *testing.B) {
	k := open(b, allKeys(b), at(issuedAt))
	for _, form := range forms {
		token := peer(b, form)
		b.Run(form, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := k.Verify(b.Context(), token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("refused", func(b *testing.B) {
		token := signed("k1", other, claims(b, nil))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := k.Verify(b.Context(), token); err == nil {
				b.Fatal("it is accepted")
			}
		}
	})
}
