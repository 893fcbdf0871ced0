package config
import ("testing";"strings")
func FuzzLost(f *testing.F){
	f.Add([]byte(explained))
	f.Add([]byte("a: 1\nb: [1,'2', {c: \"d\"}]\nc:\n  - d: null\n    e: |\n     foo\n"))
	f.Fuzz(func(t *testing.T, data []byte){
		if len(data)>4096 || strings.ContainsAny(string(data), "|>") {return}
		_, err := Parse("f", data)
		if err != nil && (strings.Contains(err.Error(), "belongs nowhere")||strings.Contains(err.Error(), "simplify it")) { t.Fatal(err) }
	})
}
