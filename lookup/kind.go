package lookup

import "context"

// Kind is a kind of lookups outside of the log. A pipeline file chooses it by its name,
// as a field of a lookup: `lookup: {name: profile, toy: {path: /tmp/x}, ...}`. A Go
// program brings its own kinds through Code.
type Kind struct {
	Name    string // the field of a lookup that chooses the kind: lower case, digits and '_'
	Help    string // where rows are, for the reference page
	Example string // of the field's value, in YAML

	// New returns a pointer to a new struct. Its fields are the fields of the mapping
	// below Name, by the tags that package sink explains at its Kind. Each field also has
	// the tag affects:
	//
	//	affects:"outputs"  another value finds other rows, or rows of another form
	//	affects:"nothing"  it says where the service is and how it is asked
	//
	// A change of what affects outputs begins a generation, and answers that were kept
	// for the former value are not used.
	New func() Config
}

// Config is what a pipeline file says of where one lookup finds rows. Its methods do not
// change it.
type Config interface {
	// Check returns all that is wrong, and asks no service. An error that is a *Mistake
	// says which field is wrong.
	Check(Step) []error

	// Open returns the source of the rows of keys. Nothing is asked yet: a service that is
	// down is no error. A source that has a method Close, with or without an error, is
	// closed at the end.
	Open(context.Context, Step) (Source, error)

	// Describe says where rows are, such as the URL, in one line that holds no secret.
	// Lookups with the same name and the same place share a breaker.
	Describe() string
}

// Optional interfaces of a Config.
type (
	// Searcher has a service that finds documents by a vector. Lookups by `vector` are
	// checked and opened by its methods, in place of Check and Open. The keys of the source
	// are those of Query: the vector, and a text for each column of Where.
	Searcher interface {
		CheckSearch(Search) []error
		OpenSearch(context.Context, Search) (Source, error)
	}

	// Warner returns what is allowed but will surprise. Check found nothing wrong.
	Warner interface{ Warnings(Step) []error }
)

// Optional interfaces of a Source.
type (
	// Checked asks the service whether rows can be found, and changes nothing there. The
	// engine asks before it calls again after a failure, and `afterbay lint --connect`
	// shows the error, which may be a *Mistake.
	Checked interface{ Check(context.Context) error }

	// Single reports whether a call of Rows is to have one key alone.
	Single interface{ Single() bool }
)

// Step is what a kind is told of the lookup.
type Step struct {
	Name     string  // of the lookup
	Pipeline string  // that the lookup is a step of
	Fields   []Field // that are read of a row, in their order
}

// Field is a member of the JSON object that is a row.
type Field struct {
	Name string
	Type string // as the pipeline file writes types, such as `optional number`
}

// Search is what a kind is told of a lookup by a vector. Its row is made of the documents
// that are nearest to the vector: a field of type string has the texts of all of them, the
// nearest first, and one of type string[] a list of these. A field of another type has the
// value of the nearest, and a field distance how far that is.
type Search struct {
	Step
	Size     int      // numbers of a vector; 0 in CheckSearch
	Distance string   // cosine, l2 or inner_product
	Limit    int      // how many documents are found at most
	Join     string   // between the texts of documents
	Where    []string // columns that equal the texts of a key, in their order
}
