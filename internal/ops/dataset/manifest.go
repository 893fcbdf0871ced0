package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"path/filepath"
	"time"

	"github.com/afterbay/afterbay/internal/check/dryrun"
	"github.com/afterbay/afterbay/internal/event/tabular"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/ops/inspect"
)

// ManifestVersion is the format of a Manifest.
const ManifestVersion = 1

// Manifest describes a file of rows and its inputs. It has no time of writing, so the same command
// over the same events produces the same manifest.
type Manifest struct {
	Version  int               `json:"version"`
	File     FileDigest        `json:"file"`
	Rows     RowDigest         `json:"rows"`
	Profile  *FileDigest       `json:"profile,omitempty"` // of --profile
	Schema   SchemaDigest      `json:"schema"`
	Pipeline PipelineDigest    `json:"pipeline"`
	Sources  []dryrun.Source   `json:"sources"` // offsets of the events, by topic and partition
	Events   EventCounts       `json:"events"`
	Labels   *LabelCounts      `json:"labels,omitempty"`
	Kept     Kept              `json:"left_out"`
	Options  map[string]string `json:"options"`
	Command  []string          `json:"command"`
	Afterbay string            `json:"afterbay"` // version of the program
}

// FileDigest identifies the file.
type FileDigest struct {
	Name   string `json:"name"`
	Format string `json:"format"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// RowDigest identifies the rows in any format, by the digest of the rows as NDJSON.
type RowDigest struct {
	Count  int64  `json:"count"`
	SHA256 string `json:"sha256"`
}

// SchemaDigest identifies the columns, by the digest of their lines "name type".
type SchemaDigest struct {
	Columns []Column `json:"columns"`
	SHA256  string   `json:"sha256"`
}

// Column is a column of the rows.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// PipelineDigest identifies the pipeline by its fingerprint, and its models.
type PipelineDigest struct {
	Name        string   `json:"name"`
	Fingerprint string   `json:"fingerprint"`
	Models      []string `json:"models"` // name@version and digest
}

// EventCounts counts events by outcome. Only events with a row are in the file.
type EventCounts struct {
	Read        int64           `json:"read"`
	Late        int64           `json:"late"`
	Dropped     int64           `json:"dropped"`
	Collected   int64           `json:"collected"`        // taken by a group or join; the events that it makes have the rows
	DeadLetters map[string]int  `json:"dead_letters"`     // by step
	Outside     int64           `json:"outside"`          // outside --since and --until
	Forced      *inspect.Forced `json:"forced,omitempty"` // of the live pipeline; absent if none was
}

// LabelCounts counts labels by use.
type LabelCounts struct {
	Records    int64     `json:"records"`
	Unreadable int64     `json:"unreadable"`
	First      string    `json:"first_unreadable,omitempty"`
	Ahead      int64     `json:"ahead"` // known after as_of or after the program ran; not used
	FirstAhead string    `json:"first_ahead,omitempty"`
	Unused     int64     `json:"unused"`     // not known in time, before its event, replaced by a newer label, or without a row
	Labelled   int64     `json:"labelled"`   // rows with a label
	Unlabelled int64     `json:"unlabelled"` // rows without a label within the horizon
	Retracted  int64     `json:"retracted"`  // unlabelled rows with a label that null retracted
	Young      int64     `json:"too_young"`  // rows left out because they were younger than the horizon at as_of
	AsOf       time.Time `json:"as_of"`
	AsOfFrom   string    `json:"as_of_from"` // --as-of, or the label that determined as_of
}

// Kept counts the rows that options excluded.
type Kept struct {
	Negatives  int64 `json:"negatives"`
	Expression int64 `json:"keep"`
}

// manifestOf returns the name of the manifest of a file.
func manifestOf(file string) string { return file + ".manifest.json" }

func newManifest(o *Options, format tabular.Format) *Manifest {
	m := &Manifest{
		Version: ManifestVersion, File: FileDigest{Name: filepath.Base(o.Out), Format: string(format)}, Command: o.Command, Afterbay: o.Version,
		Events: EventCounts{DeadLetters: map[string]int{}}, Options: map[string]string{},
	}
	for name, text := range map[string]string{
		"since": timeText(o.Since), "until": timeText(o.Until), "labels": o.Labels.Source, "on": o.Labels.On, "label": o.Labels.Label, "label-time": o.Labels.Time,
		"negatives": o.Negatives, "keep": o.Keep,
	} {
		if text != "" {
			m.Options[name] = text
		}
	}
	if o.Labels.Horizon > 0 {
		m.Options["horizon"] = o.Labels.Horizon.String()
	}
	return m
}

func timeText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// finish completes the manifest after the rows are written.
func (m *Manifest) finish(w *writer, d *digest) {
	m.File.Bytes, m.File.SHA256, m.Rows.SHA256 = d.bytes, sum(d.file), sum(d.rows)
	text := sha256.New()
	for _, c := range w.columns {
		m.Schema.Columns = append(m.Schema.Columns, Column{c.Name, c.Type.String()})
		io.WriteString(text, c.Name+" "+c.Type.String()+"\n") // a hash never returns an error
	}
	m.Schema.SHA256 = sum(text)
	plan := w.rows.Runner().Plan
	m.Pipeline = PipelineDigest{plan.Name, plan.Fingerprint.Outputs, append([]string{}, plan.Models...)}
	m.Events.Read = w.rows.Appended
	m.Sources = w.rows.Sources
	if w.rows.Forced.Events > 0 {
		m.Events.Forced = &w.rows.Forced
	}
	if w.labels != nil {
		m.Labels.AsOf = time.UnixMicro(w.labels.asOf).UTC()
	}
}

// write writes the manifest.
func (m *Manifest) write(to io.Writer) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	_, err = to.Write(append(text, '\n'))
	return err
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// digest is a tabular.Writer that computes digests of its output: of the file and of the rows as
// NDJSON.
type digest struct {
	to         io.Writer
	bytes      int64
	file, rows hash.Hash
	out, lines tabular.Writer
}

func newDigest(to io.Writer, format tabular.Format, columns []value.Slot) (*digest, error) {
	d := &digest{to: to, file: sha256.New(), rows: sha256.New()}
	var err, err1 error
	d.out, err = tabular.New(written{d}, format, columns)
	d.lines, err1 = tabular.New(d.rows, tabular.NDJSON, columns)
	return d, errors.Join(err, err1)
}

// written is the file of a digest.
type written struct{ *digest }

// Write implements io.Writer.
func (w written) Write(text []byte) (int, error) {
	n, err := w.to.Write(text)
	w.bytes += int64(n)
	w.file.Write(text[:n]) // a hash never returns an error
	return n, err
}

// Write implements tabular.Writer.
func (d *digest) Write(row *value.Row) error {
	return errors.Join(d.out.Write(row), d.lines.Write(row))
}

// Close implements tabular.Writer.
func (d *digest) Close() error { return errors.Join(d.out.Close(), d.lines.Close()) }
