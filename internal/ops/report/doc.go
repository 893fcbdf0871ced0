// Package report reads what commands show of a log: dead letters, the async queue, generations, the journal, records.
package report
