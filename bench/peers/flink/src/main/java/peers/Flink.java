package peers;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.serialization.AbstractDeserializationSchema;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** The work in Flink. Arguments: model, input, output, broker, id, then key=value of the settings. */
public final class Flink {
    public static void main(String[] args) throws Exception {
        String path = args[0], input = args[1], output = args[2], broker = args[3], id = args[4];
        Map<String, String> settings =
                Arrays.stream(args).skip(5).map(s -> s.split("=", 2)).collect(Collectors.toMap(s -> s[0], s -> s[1]));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(Configuration.fromMap(settings));
        KafkaSource<Event> source = KafkaSource.<Event>builder()
                .setBootstrapServers(broker)
                .setTopics(input)
                .setGroupId(id)
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new Events())
                .build();
        Properties transactions = new Properties();
        transactions.put("transaction.timeout.ms", "600000"); // the broker allows 15 min, the sink's own is an hour
        KafkaSink<Scored> sink = KafkaSink.<Scored>builder()
                .setBootstrapServers(broker)
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(id)
                .setKafkaProducerConfig(transactions)
                .setRecordSerializer(KafkaRecordSerializationSchema.<Scored>builder()
                        .setTopic(output)
                        .setKeySerializationSchema(new Users())
                        .setValueSerializationSchema(new Results())
                        .build())
                .build();
        env.fromSource(source, WatermarkStrategy.noWatermarks(), "events")
                .keyBy(event -> event.userId)
                .process(new Scorer(path))
                .sinkTo(sink);
        env.execute(id);
    }

    /** A result and its key. */
    public static class Scored {
        public String user;
        public Result result;
    }

    private static final class Events extends AbstractDeserializationSchema<Event> {
        @Override
        public Event deserialize(byte[] data) {
            return Json.event(data);
        }
    }

    private static final class Users implements SerializationSchema<Scored> {
        @Override
        public byte[] serialize(Scored scored) {
            return scored.user.getBytes(StandardCharsets.UTF_8);
        }
    }

    private static final class Results implements SerializationSchema<Scored> {
        @Override
        public byte[] serialize(Scored scored) {
            return Json.bytes(scored.result);
        }
    }

    private static final class Scorer extends KeyedProcessFunction<String, Event, Scored> {
        private final String path;
        private transient Model model;
        private transient ValueState<UserState> users;

        Scorer(String path) {
            this.path = path;
        }

        @Override
        public void open(OpenContext context) {
            model = new Model(path);
            users = getRuntimeContext().getState(new ValueStateDescriptor<>("users", UserState.class));
        }

        @Override
        public void processElement(Event event, Context context, Collector<Scored> out) throws Exception {
            UserState state = users.value();
            if (state == null) {
                state = new UserState();
            }
            float score = model.score(state.add(event));
            state.scored(score);
            users.update(state);
            Scored scored = new Scored();
            scored.user = event.userId;
            scored.result = new Result(event.eventId, score);
            out.collect(scored);
        }
    }
}
