//go:build !linux

package main

import "errors"

// check needs chroot and images of this system.
func check(string) error { return errors.New("-check runs on Linux alone: its images do") }
