package lang

import (
	"github.com/afterbay/afterbay/internal/spec"
)

// anyFolder prints any folder as the same text, because fingerprints do not depend on which folder
// it is.
func anyFolder(path string) string {
	if path == "" {
		return ""
	}
	return "a folder"
}

var contentFields = []spec.Field[Content]{
	{Name: "root", Affects: spec.Outputs, Form: spec.Into(func(o *Content) *string { return &o.Root }, spec.As(anyFolder, spec.TextOf("the path of a folder"))), Example: "/data/uploads", Absent: "no files"},
	{Name: "hosts", Affects: spec.Outputs, Form: spec.Into(func(o *Content) *[]string { return &o.Hosts }, setOf(spec.ReadName)), Example: "[files.example.com, '*.media.example.com']", Absent: "any"},
	{Name: "private", Affects: spec.Outputs, Form: spec.Into(func(o *Content) *[]string { return &o.Private }, setOf(spec.TextOf("a network"))), Example: "[10.2.0.0/16]", Absent: "none"},
	{Name: "http", Affects: spec.Outputs, Form: spec.Into(func(o *Content) *bool { return &o.HTTP }, spec.OnlyTrue()), Example: "true", Absent: "https alone"},
	{Name: "buckets", Affects: spec.Outputs, Form: spec.Into(func(o *Content) *[]string { return &o.Buckets }, setOf(spec.ReadName)), Example: "[calls, shots]", Absent: "none"},
	{Name: "s3", Affects: spec.Nothing, Form: spec.Into(func(o *Content) *spec.ObjectStore { return &o.S3 }, spec.MappingOf(spec.StoreFields)), Example: "{endpoint: 'https://store.example.com', region: eu-west-1}", Absent: "as below"},
	{Name: "cache", Affects: spec.Nothing, Form: spec.Into(func(o *Content) *ContentCache { return &o.Cache }, spec.MappingOf(cacheFields)), Example: "{dir: /data/content, max: 10GiB}", Absent: "as below"},
}

var cacheFields = []spec.Field[ContentCache]{
	{Name: "dir", Affects: spec.Nothing, Form: spec.Into(func(c *ContentCache) *string { return &c.Dir }, spec.TextOf("the path of a folder")), Example: "/data/content"},
	{Name: "max", Affects: spec.Nothing, Form: spec.Into(func(c *ContentCache) *int { return &c.Max }, spec.Size(1, 1<<44)), Example: "10GiB"},
}
