// Package e2e tests pipelines, examples and documents as a whole: it has no code but tests.
package e2e
