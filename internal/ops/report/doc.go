// Package report reads and writes the tables and lists that commands show of a log: dead letters,
// the async queue, generations, the journal, records, budgets, reprocessing and damage.
package report
