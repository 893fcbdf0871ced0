//go:build !linux

package process

func resident(int) int64 { return 0 }
