package peers;

import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** The work in Kafka Streams. Arguments: model, input, output, then key=value of the settings. */
public final class Streams {
    private static final String STORE = "users";

    public static void main(String[] args) {
        Properties settings = new Properties();
        for (int i = 3; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        KafkaStreams streams = new KafkaStreams(topology(new Model(args[0]), args[1], args[2]), settings);
        streams.setUncaughtExceptionHandler(e -> {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }

    private static Topology topology(Model model, String input, String output) {
        Serde<Event> events = Serdes.serdeFrom((topic, event) -> {
            throw new UnsupportedOperationException();
        }, (topic, data) -> Json.event(data));
        Serde<Result> results = Serdes.serdeFrom((topic, result) -> Json.bytes(result), (topic, data) -> {
            throw new UnsupportedOperationException();
        });
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), Serdes.String(), StateSerde.serde())
                .withCachingEnabled());
        builder.stream(input, Consumed.with(Serdes.String(), events))
                .processValues(() -> new Scorer(model), STORE)
                .to(output, Produced.with(Serdes.String(), results));
        return builder.build();
    }

    private static final class Scorer implements FixedKeyProcessor<String, Event, Result> {
        private final Model model;
        private FixedKeyProcessorContext<String, Result> context;
        private KeyValueStore<String, UserState> users;

        Scorer(Model model) {
            this.model = model;
        }

        @Override
        public void init(FixedKeyProcessorContext<String, Result> context) {
            this.context = context;
            users = context.getStateStore(STORE);
        }

        @Override
        public void process(FixedKeyRecord<String, Event> record) {
            UserState state = users.get(record.key());
            if (state == null) {
                state = new UserState();
            }
            float score = model.score(state.add(record.value()));
            state.scored(score);
            users.put(record.key(), state);
            context.forward(record.withValue(new Result(record.value().eventId, score)));
        }
    }
}
