package model

// TokenCounter is a Model that cuts texts into tokens.
type TokenCounter interface {
	Model

	// CountTokens returns how many tokens of a text the model sees, those that it adds
	// included. It may be called from several goroutines.
	CountTokens(text []byte) int
}
