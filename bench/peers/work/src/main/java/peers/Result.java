package peers;

import com.fasterxml.jackson.annotation.JsonProperty;

/** The decision about one event. */
public class Result {
    @JsonProperty("event_id") public String eventId;
    public float score;
    public String decision;
    @JsonProperty("model_version") public String modelVersion = "fraud-v1";

    public Result() {}

    public Result(String eventId, float score) {
        this.eventId = eventId;
        this.score = score;
        decision = score >= 0.9f ? "block" : score >= 0.5f ? "review" : "allow";
    }
}
