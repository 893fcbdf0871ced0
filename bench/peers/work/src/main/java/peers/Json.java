package peers;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.io.UncheckedIOException;

/** Events from JSON, results to JSON. */
public final class Json {
    private static final ObjectReader EVENTS = new ObjectMapper().readerFor(Event.class);
    private static final ObjectWriter RESULTS = new ObjectMapper().writerFor(Result.class);

    private Json() {}

    public static Event event(byte[] data) {
        try {
            return EVENTS.readValue(data);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    public static byte[] bytes(Result result) {
        try {
            return RESULTS.writeValueAsBytes(result);
        } catch (JsonProcessingException e) {
            throw new UncheckedIOException(e);
        }
    }
}
