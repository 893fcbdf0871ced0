package afterbay

import (
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/sink"
)

// ownColumns is what the names of columns begin with that a sink of files adds.
const ownColumns = "afterbay_"

// sinkFiles checks a sink of files, and returns it with its columns.
func (c *compiler) sinkFiles(path string, s *Sink, complete bool) *FilesSink {
	f := *s.Files
	at := path + ".files"
	scheme, rest, _ := strings.Cut(f.URL, "://")
	switch {
	case strings.ContainsAny(rest, "@?#"):
		c.fail(at+".url", "the URL has a user, or more than a path")
		c.hint("use file:///FOLDER or s3://BUCKET/PREFIX")
	case scheme == "file" && strings.HasPrefix(rest, "/") || scheme == "s3" && rest != "" && rest[0] != '/':
	default:
		c.fail(at+".url", "the URL is not valid: use file:///FOLDER, from the root, or s3://BUCKET/PREFIX")
	}
	if scheme == "file" && f.S3 != (ObjectStore{}) {
		c.fail(at+".s3", "it says nothing about a folder: it is of s3://BUCKET/PREFIX")
	}
	if s.Expire != 0 {
		c.fail(path+".expire", "it says nothing about files: every record is kept, and tried until it is")
	}
	if f.Format == "ndjson" {
		if f.Columns != nil {
			c.fail(at+".columns", "ndjson has whatever the values have: columns are of parquet")
		}
		return &f
	}
	if f.Columns == nil {
		f.Columns = c.emitted(at, s.From, complete)
	}
	for i, column := range f.Columns {
		switch _, err := value.ReadType(column.Type); {
		case err != nil:
			c.fail(at+".columns."+column.Name, "%v", err)
		case strings.HasPrefix(column.Name, ownColumns):
			c.fail(at, "the column %s: names that begin with %s are the sink's own", column.Name, ownColumns)
			c.hint("emit it under another name")
		case slices.ContainsFunc(f.Columns[:i], func(o Field) bool { return o.Name == column.Name }):
			c.fail(at, "two columns are named %s", column.Name)
		}
	}
	return &f
}

func objectBounds(f *FilesSink) sink.Bounds {
	return sink.Bounds{Rows: f.Rows, Bytes: f.Bytes, Wait: f.Wait}
}

// emitted returns the members of the values that the emits write to a topic, and
// their types.
func (c *compiler) emitted(path, topic string, complete bool) []Field {
	fields := c.written[topic]
	for _, f := range fields {
		if f.Type == mixed {
			c.fail(path, "the emits to %s write %s with several types", topic, f.Name)
			c.hint("give it another name in one of them, or use `format: ndjson`")
		}
	}
	if len(fields) == 0 && complete {
		c.fail(path+".columns", "missing: no emit writes %s, so the types of its values are not known", topic)
		c.hint("name them, as in `columns: {customer: string, amount: number}`, or use `format: ndjson`")
	}
	return slices.DeleteFunc(slices.Clone(fields), func(f Field) bool { return f.Type == mixed })
}
