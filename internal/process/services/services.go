// Package services opens where lookups outside of the log find rows, as a pipeline
// says: in Redis, in PostgreSQL or by HTTP. A program that has such pipelines gives
// Open to afterbay.Code.
package services

import (
	"context"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lookups/http"
	"github.com/afterbay/afterbay/internal/lookups/postgres"
	"github.com/afterbay/afterbay/internal/lookups/redis"
	"github.com/afterbay/afterbay/lookup"
)

// Open returns where a lookup finds rows. Nothing is asked yet.
func Open(l afterbay.Lookup) (lookup.Source, error) {
	switch {
	case l.Redis != nil:
		return redis.New(redis.Options{URL: l.Redis.URL, Prefix: l.Redis.Prefix})
	case l.Vector != "" && l.Postgres != nil:
		return nearest(&l)
	case l.Postgres != nil:
		return postgres.New(context.Background(), postgres.Options{URL: l.Postgres.URL, Query: l.Postgres.Query})
	}
	options := http.Options{URL: l.HTTP.URL, Bearer: l.HTTP.Token, BearerFile: l.HTTP.TokenFile, Headers: map[string]string{}}
	for _, h := range l.HTTP.Headers {
		options.Headers[h.Name] = h.Value
	}
	return http.New(options)
}

// nearest returns where documents are found.
func nearest(l *afterbay.Lookup) (lookup.Source, error) {
	o := postgres.NearestOptions{
		URL: l.Postgres.URL, Table: l.Postgres.Table, Column: l.Postgres.Column,
		Size: l.Dimensions, Distance: l.Distance, Limit: l.Limit, Join: l.Join,
	}
	for _, w := range l.Where {
		o.Where = append(o.Where, w.Name)
	}
	for _, f := range l.Fields {
		t, err := value.ReadType(f.Type)
		if err != nil {
			return nil, err
		}
		o.Columns = append(o.Columns, postgres.Column{Name: f.Name, Text: t.Kind == value.String, List: t.Kind == value.Strings})
	}
	return postgres.NewNearest(context.Background(), o)
}
