package fetch_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/stream"
)

// TestReplayIsGivenTheContentThatThereWas computes events again whose URLs have
// other content meanwhile: where that of before is kept a model is given it, and
// else nothing.
func TestReplayIsGivenTheContentThatThereWas(t *testing.T) {
	for name, kept := range map[string]bool{"kept": true, "gone": false} {
		t.Run(name, func(t *testing.T) {
			w, dir := newWorld(t, "1MB"), t.TempDir()
			text := strings.Replace(file, "cache: {max", "cache: {dir: '"+filepath.Join(dir, "content")+"', max", 1)
			log, err := embedded.Open(filepath.Join(dir, "log"), embedded.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			live := w.open(t, text)
			defer live.Close()
			if err := live.CreateTopics(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- live.Run(ctx, log) }()
			for n := range 20 {
				if err := log.Append(ctx, event(n, w.urls[0]+fmt.Sprint(n%10))); err != nil {
					t.Fatal(err)
				}
			}
			if err := live.WaitIdle(ctx, log); err != nil {
				t.Fatal(err)
			}
			w.store.mu.Lock()
			w.store.version = " of later"
			w.store.mu.Unlock()
			text = strings.Replace(text, "value: [customer, n,", "value: [n, customer,", 1)
			if !kept {
				text = strings.Replace(text, filepath.Join(dir, "content"), filepath.Join(dir, "other"), 1)
			}
			changed := w.open(t, text)
			defer changed.Close()
			for _, err := range reprocess.Run(ctx, log, changed, reprocess.Job{}) {
				if err != nil {
					t.Fatal(err)
				}
			}
			stop()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			outputs, dead := written(t, log, "artifacts"), written(t, log, "support.dlq")
			if kept && (len(outputs) != 20 || len(dead) > 0) || !kept && (len(outputs) > 0 || len(dead) != 20) {
				t.Errorf("%d outputs, %d dead letters", len(outputs), len(dead))
			}
			for _, r := range outputs {
				if strings.Contains(string(r.Value), "LATER") || !strings.Contains(string(r.Value), "IMAGE") {
					t.Errorf("%s", r.Value)
				}
			}
			for _, r := range dead {
				if reason := header.Get(&r, header.Error); !strings.Contains(reason, "the content has changed: it had sha256:") {
					t.Error(reason)
				}
			}
		})
	}
}

// written returns what the second generation wrote for a topic.
func written(t *testing.T, log *embedded.Log, topic string) (all []stream.Record) {
	t.Helper()
	for index := range int32(2) {
		for next := stream.Offset(0); ; {
			r, found, err := log.Peek(t.Context(), stream.Partition{Topic: generation.TopicOf("support", topic, 2), Index: index}, next)
			if err != nil {
				t.Fatal(err)
			}
			if !found {
				break
			}
			next = r.Offset + 1
			all = append(all, r)
		}
	}
	return all
}
