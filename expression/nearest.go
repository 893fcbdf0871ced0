package expression

// Nearest returns the known name that is spelled most like name, for a
// did-you-mean; "" where none is close.
func Nearest(name string, known []string) string { return nearest(name, known) }
