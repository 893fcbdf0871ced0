package peers;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;

/** What is read of an input event. Public fields, so that Flink takes it for a POJO. */
@JsonIgnoreProperties(ignoreUnknown = true)
public class Event {
    @JsonProperty("event_id") public String eventId;
    @JsonProperty("user_id") public String userId;
    public long ts; // ms
    public double amount;
    public String country, channel, device;
}
