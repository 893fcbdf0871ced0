package spec

import "time"

// Share is a part of the events within a time.
type Share struct {
	Of  float64 // between 0 and 1
	Per time.Duration
}

// Constant is a name for a scalar (bool, int64, float64 or string) or for a
// table from string to scalars of one kind, used as table[key] ?? default.
type Constant struct {
	Name  string
	Value any // scalar, or nil where Table is set
	Table map[string]any
}

// Header is a header of requests.
type Header struct {
	Name, Value string
	Written     string // Value as the file has it, if it names variables
}

// ObjectStore is an S3 server, with credentials from the environment or from a file.
type ObjectStore struct {
	Endpoint    string // a URL, with buckets in its paths; "" is AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's URL for the region
	Region      string // region of the server; "" is AWS_REGION, AWS_DEFAULT_REGION, or us-east-1
	Credentials string // a file like ~/.aws/credentials; "" is AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, web identity, ~/.aws/credentials and ~/.aws/config, or the role of the container or machine
	Profile     string // profile in the file; "" is AWS_PROFILE, or default
}

// StoreFields are the fields of an object store.
var StoreFields = []Field[ObjectStore]{
	{Name: "endpoint", Affects: Nothing, Form: Into(func(s *ObjectStore) *string { return &s.Endpoint }, ReadURL), Example: "https://store.example.com"},
	{Name: "region", Affects: Nothing, Form: Into(func(s *ObjectStore) *string { return &s.Region }, ReadName), Example: "eu-west-1"},
	{Name: "credentials", Affects: Nothing, Form: Into(func(s *ObjectStore) *string { return &s.Credentials }, ReadPath), Example: "/run/secrets/aws"},
	{Name: "profile", Affects: Nothing, Form: Into(func(s *ObjectStore) *string { return &s.Profile }, ReadName), Example: "support"},
}
