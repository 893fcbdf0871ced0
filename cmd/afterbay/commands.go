package main

type commands struct {
	Init        initCommand        `cmd:"" help:"Write a pipeline file that fits a sample of events."`
	Try         tryCommand         `cmd:"" help:"Show the results of a pipeline file for events, event by event. Nothing is stored."`
	Lint        lintCommand        `cmd:"" help:"Check pipeline files and their models, and report all errors."`
	Test        testCommand        `cmd:"" help:"Run scenario files: events, crashes and expected results."`
	Run         runCommand         `cmd:"" help:"Run the pipelines of files until a signal ends the process."`
	Serve       serveCommand       `cmd:"" help:"Serve the predictions of models over HTTP and gRPC, also for streams of records."`
	Produce     produceCommand     `cmd:"" help:"Append the records of a file or of standard input to a topic."`
	Tail        tailCommand        `cmd:"" help:"Print the records of a topic."`
	Explain     explainCommand     `cmd:"" help:"Show the origin of an output: event, features, models, times."`
	Dataset     datasetCommand     `cmd:"" help:"Write the rows that a pipeline computes from events to a file, with labels, to train a model."`
	Skew        skewCommand        `cmd:"" help:"Compute a sample of keys again from the log, and show the differences from the live pipeline."`
	Topics      topicsCommand      `cmd:"" help:"List the topics and their contents."`
	DLQ         dlqCommand         `cmd:"" name:"dlq" help:"Look at the dead letters of a pipeline, send their events back or drop them."`
	Lag         lagCommand         `cmd:"" help:"Show how far pipelines are behind, partition by partition, the worst first."`
	Status      statusCommand      `cmd:"" help:"Show the pipelines of a running process: events, times by case of a route, models and their faults, groups, sinks and their delay, savings of the journal, the checkpoint."`
	Order       orderCommand       `cmd:"" help:"Show which source partition ordered events wait for, and skip it."`
	Budget      budgetCommand      `cmd:"" help:"Compare the time of events in each phase with the budget of a running pipeline."`
	State       stateCommand       `cmd:"" help:"Look into the state of a pipeline."`
	Journal     journalCommand     `cmd:"" help:"Show the calls that the journal of a pipeline saved."`
	Queue       queueCommand       `cmd:"" help:"List the events in the async queue of a pipeline, retry their calls now, or drop them."`
	Doctor      doctorCommand      `cmd:"" help:"Check every frame, index and block of a data directory, and cut damage out of it. Or check Kafka brokers."`
	Reprocess   reprocessCommand   `cmd:"" help:"Process the history of a pipeline again with a changed model or file, beside the live pipeline, and switch to the result."`
	Generations generationsCommand `cmd:"" help:"Show the generation that computes each partition of a pipeline, and its first offset."`
	Gateway     gatewayCommand     `cmd:"" help:"Serve clients over WebSocket and HTTP: the gateway sends their events to a pipeline on Kafka, and returns its results once and in order."`
	Clients     clientsCommand     `cmd:"" help:"List the clients of a gateway, how many events of each wait for a result, and how far each is behind."`
	Token       tokenCommand       `cmd:"" help:"Issue and inspect tokens for clients of the gateway."`
	Model       modelCommand       `cmd:"" help:"Describe, check or measure a model, or score rows with it."`
	Demo        demoCommand        `cmd:"" help:"Turn generated card payments into fraud decisions, and print a summary."`
	Bench       benchCommand       `cmd:"" help:"Measure throughput and latency on this machine."`
	Placement   placementCommand   `cmd:"" help:"Measure a pipeline with its model in the process and behind an endpoint, and recommend one."`
	Simulate    simulateCommand    `cmd:"" help:"Simulate a source, a queue and its workers in virtual time: depth of the queue, throttling of the source, dropped events."`
	Plan        planCommand        `cmd:"" help:"Calculate how many workers and partitions a rate needs, their load, the waiting time of events, and whether one machine is enough."`
	Completion  completionCommand  `cmd:"" help:"Print a script that completes commands and flags in a shell."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
	Help        helpCommand        `cmd:"" help:"Print this help, or that of a command."`
}

// helpCommand exists for the help text; execute turns it into --help.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Command, such as dlq redrive."`
}
