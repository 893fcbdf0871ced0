// Package report reads and writes what commands show of a log: dead letters, the async queue, generations, the journal, records, budgets, reprocessing, damage.
package report
