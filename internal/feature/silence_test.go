package feature

import "testing"

// TestWindowlessHeadersHaveNothingToDrop compares what is said of a header with
// what DropWindows changes of it.
func TestWindowlessHeadersHaveNothingToDrop(t *testing.T) {
	for name, windows := range map[string]string{"panes": "60s/5s", "exact": "60s"} {
		t.Run(name, func(t *testing.T) {
			s := setOf(t,
				Spec{Name: "f", Windows: windowsOf(t, windows), Aggregates: []Aggregate{Sum}, Decimals: 0},
				Spec{Name: "gap", Elapsed: true},
			)
			c, state := s.NewCell(), store{}
			for n := range int64(70) {
				if err := s.Add(c, 1, n, 0); err != nil {
					t.Fatal(err)
				}
				s.Changes(c, nil, state.put)
				if windowless := s.HeaderWindowless([]byte(state[""])); windowless != (n == 0) {
					t.Fatalf("after %d entries: windowless is %t", n, windowless)
				}
				if err := s.Add(c, 0, n, 1); err != nil {
					t.Fatal(err)
				}
			}
			s.DropWindows(c)
			s.Changes(c, nil, state.put)
			if !s.HeaderWindowless([]byte(state[""])) || s.HeaderWindowless([]byte("?")) {
				t.Error("a dropped window is there, or a broken header is taken")
			}
		})
	}
}
