package lookup

import "context"

// Kind is a kind of external lookup. A pipeline file selects a kind by its name, as a field of a
// lookup: `lookup: {name: profile, toy: {path: /tmp/x}, ...}`. A Go program adds its own kinds
// through Code.
type Kind struct {
	Name    string // field of a lookup that selects the kind: lower case, digits and '_'
	Help    string // where the rows are, for the reference page
	Example string // YAML value of the field

	// New returns a pointer to a new struct. Its fields are the fields of the mapping below Name.
	// Their tags are those that sink.Kind documents. In addition, each field has the tag affects:
	//
	//	affects:"outputs"  another value finds other rows, or rows with other fields
	//	affects:"nothing"  it says where the service is and how to call it
	//
	// A change of a field that affects outputs starts a new generation. Answers that were kept for
	// the old value are then not used.
	New func() Config
}

// Config is the part of a pipeline file that says where one lookup finds rows. Its methods do not
// change it.
type Config interface {
	// Check returns all configuration errors. It does not call the service. A *Mistake error names
	// the wrong field.
	Check(Step) []error

	// Open returns the source of the rows. It does not call the service, so a service that is down
	// causes no error. If the source has a method Close, with or without an error result, the
	// engine calls it at the end.
	Open(context.Context, Step) (Source, error)

	// Describe returns where the rows are, such as the URL, in one line without secrets. Lookups
	// with the same name and the same place share a circuit breaker.
	Describe() string
}

// Optional interfaces of a Config.
type (
	// Searcher is a Config of a service that finds documents by a vector. For lookups by `vector` the
	// engine calls its methods instead of Check and Open. The keys of the source are made by Query:
	// the vector, and one text for each column of Where.
	Searcher interface {
		CheckSearch(Search) []error
		OpenSearch(context.Context, Search) (Source, error)
	}

	// Warner returns warnings: settings that are valid but have surprising effects. It is called
	// only if Check found no error.
	Warner interface{ Warnings(Step) []error }
)

// Optional interfaces of a Source.
type (
	// Checked tests whether the service can return rows. It changes nothing there. The engine calls
	// it after a failure, before it calls Rows again. `afterbay lint --connect` shows the error,
	// which may be a *Mistake.
	Checked interface{ Check(context.Context) error }

	// Single reports whether each call of Rows must have only one key.
	Single interface{ Single() bool }
)

// Step describes the lookup to its kind.
type Step struct {
	Name     string  // name of the lookup
	Pipeline string  // pipeline that contains the lookup
	Fields   []Field // fields that the lookup reads from a row, in order
}

// Field is a member of the JSON object of a row.
type Field struct {
	Name string
	Type string // type in the notation of pipeline files, such as `optional number`
}

// Search describes a lookup by vector to its kind. The row is built from the documents that are
// nearest to the vector. A string field holds the texts of all of them, nearest first; a string[]
// field holds them as a list. A field of another type holds the value of the nearest document. A
// field named distance holds the distance of the nearest document.
type Search struct {
	Step
	Size     int      // dimension of the vector; 0 in CheckSearch
	Distance string   // cosine, l2 or inner_product
	Limit    int      // maximum number of documents
	Join     string   // separator between the texts of documents
	Where    []string // columns that must equal the texts of a key, in order
}
