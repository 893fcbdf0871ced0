package admin

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/observe/metric"
	"github.com/afterbay/afterbay/internal/pipeline"
)

// Metrics describes the metrics of servers of pipelines and of gateways, those of an
// embedded log among them.
func Metrics() []metric.Info {
	return metric.Infos(pipelineTable, classTable, modelBatchTable, phaseTable, caseTable, generationTable,
		budgetTable, budgetMissedTable, caseBudgetTable, passTable, scoredTable, journalTable, endpointTable, lagTable, lagAboveTable, backlogTable,
		sinkTable, lookupTable, groupTable, groupEndTable, fetchTable, restoreTable, standbyTable, logTable,
		gatewayTable, gatewayCloseTable, hubTable, tenantTable, gatewayEndedTable, sequenceTable, sequenceEndTable, limitTable,
		tokenTable, tokenRefusedTable)
}

// buckets shows a snapshot of a histogram.
func buckets(s *observe.Snapshot) metric.Times {
	return metric.Times{Count: s.Count, Sum: s.Sum, Each: s.Each}
}

// bucketsOf shows a histogram.
func bucketsOf(h *observe.Histogram) metric.Times {
	s := &observe.Snapshot{}
	s.Add(h)
	return buckets(s)
}

// find returns what runs a pipeline of this process.
func find(runners []*pipeline.Runner, pipeline string) (*pipeline.Runner, error) {
	var names []string
	for _, r := range runners {
		if r.Name() == pipeline {
			return r, nil
		}
		names = append(names, r.Name())
	}
	return nil, fmt.Errorf("%w %q: this process runs %v", ErrUnknownPipeline, pipeline, names)
}
