package main

type commands struct {
	Init        initCommand        `cmd:"" help:"Write a pipeline file that fits a sample of events."`
	Try         tryCommand         `cmd:"" help:"Show what the pipelines of a file make of events, event by event, and keep nothing."`
	Lint        lintCommand        `cmd:"" help:"Check pipeline files and their models, and say all that is wrong."`
	Test        testCommand        `cmd:"" help:"Run scenario files: events, crashes and what is expected of them."`
	Run         runCommand         `cmd:"" help:"Run the pipelines of files until a signal ends the process."`
	Serve       serveCommand       `cmd:"" help:"Answer HTTP and gRPC with the predictions of models, record by record of a stream."`
	Produce     produceCommand     `cmd:"" help:"Append the records of a file or of standard input to a topic."`
	Tail        tailCommand        `cmd:"" help:"Print the records of a topic."`
	Explain     explainCommand     `cmd:"" help:"Say where an output came from: event, features, models, times."`
	Dataset     datasetCommand     `cmd:"" help:"Write the rows that a pipeline computes of events to a file, with labels, to train a model with."`
	Skew        skewCommand        `cmd:"" help:"Compute a sample of keys again from the log, and say what differs from the live pipeline."`
	Topics      topicsCommand      `cmd:"" help:"List the topics and what they hold."`
	DLQ         dlqCommand         `cmd:"" name:"dlq" help:"Look at the dead letters of a pipeline, send their events back or drop them."`
	Lag         lagCommand         `cmd:"" help:"Say how far pipelines are behind, partition by partition, the worst first."`
	Status      statusCommand      `cmd:"" help:"Say what the pipelines of a running process do: events, times by case of a route, models and their faults, groups, sinks and how fresh they are, what the journal saved, the checkpoint."`
	Order       orderCommand       `cmd:"" help:"Look at what events of several partitions wait for that are read in one order, and do not wait for it."`
	Budget      budgetCommand      `cmd:"" help:"Say what events of a running pipeline take in each phase, beside its budget."`
	State       stateCommand       `cmd:"" help:"Look into the state of a pipeline."`
	Journal     journalCommand     `cmd:"" help:"Look into the answers that a pipeline paid for."`
	Queue       queueCommand       `cmd:"" help:"Look at the events in the async queue of a pipeline, retry their calls now, or give them up."`
	Doctor      doctorCommand      `cmd:"" help:"Check a data directory: every frame, index and block; and cut damage out of it. Or check the brokers of Kafka."`
	Reprocess   reprocessCommand   `cmd:"" help:"Process the history of a pipeline again with a changed model or file, beside the live one, and hand over to it."`
	Generations generationsCommand `cmd:"" help:"Say which generation of a pipeline computes each partition, from which offset on."`
	Gateway     gatewayCommand     `cmd:"" help:"Serve clients, over WebSocket and HTTP: their events go to a pipeline on Kafka, its results come back, each once and in order."`
	Clients     clientsCommand     `cmd:"" help:"Say who is connected to a gateway, how many events of each wait for their result, and how far each is behind."`
	Token       tokenCommand       `cmd:"" help:"Issue tokens for clients of the gateway, and look into them."`
	Model       modelCommand       `cmd:"" help:"Look into a model, or score rows with it."`
	Demo        demoCommand        `cmd:"" help:"Turn generated card payments into fraud decisions, and sum up."`
	Bench       benchCommand       `cmd:"" help:"Measure throughput and latency here, of the work that peers are compared on."`
	Placement   placementCommand   `cmd:"" help:"Measure a pipeline with its model inside and behind an endpoint, and say which it should be."`
	Simulate    simulateCommand    `cmd:"" help:"Try in virtual time what a source, a queue and what serves it do: how deep the queue gets, how often the source is throttled, what is dropped."`
	Plan        planCommand        `cmd:"" help:"Say how many workers and partitions a rate needs, how busy they are, what events wait, and whether one machine is enough."`
	Completion  completionCommand  `cmd:"" help:"Print a script that completes commands and flags in a shell."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
	Help        helpCommand        `cmd:"" help:"Print this help, or that of a command."`
}

// helpCommand exists for the help text; execute turns it into --help.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Command, such as dlq redrive."`
}
