// Package e2e tests pipelines, examples and documents from end to end. It contains only tests.
package e2e
