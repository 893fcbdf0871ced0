package peers;

import java.util.Arrays;
import java.util.Map;

/**
 * What is known of one user. Public fields, so that Flink takes it for a POJO. Panes lie in arrays, four values a
 * pane and oldest first: number, events, sum of cents, most cents.
 */
public class UserState {
    private static final long[] PANE_MS = {5_000, 30_000, 60_000};
    private static final int[] PANES = {12, 10, 60};
    private static final int SCORES = 10;
    public static final int FEATURES = 16;
    private static final Map<String, Integer> COUNTRY =
            Map.of("US", 0, "GB", 1, "DE", 2, "FR", 3, "BR", 4, "IN", 5, "NG", 6, "PL", 7, "JP", 8, "ZA", 9);
    private static final Map<String, Integer> CHANNEL = Map.of("web", 0, "app", 1, "api", 2, "partner", 3);
    private static final Map<String, Integer> DEVICE = Map.of("ios", 0, "android", 1, "desktop", 2, "other", 3);

    public long[] minute = {};
    public long[] minutes = {};
    public long[] hour = {};
    public long last = -1;
    public float[] scores = {};

    /** Takes an event in and returns the features of it. */
    public float[] add(Event event) {
        float[] row = new float[FEATURES];
        long cents = Math.round(event.amount * 100);
        minute = window(minute, 0, event.ts, cents, row);
        minutes = window(minutes, 1, event.ts, cents, row);
        hour = window(hour, 2, event.ts, cents, row);
        row[12] = (float) (cents / 100.0);
        row[13] = last < 0 ? -1 : (float) Math.max(0, (event.ts - last) / 1000.0);
        last = Math.max(last, event.ts);
        double sum = 0;
        for (float score : scores) {
            sum += score;
        }
        row[14] = scores.length == 0 ? 0 : (float) (sum / scores.length);
        row[15] = COUNTRY.get(event.country) * 16 + CHANNEL.get(event.channel) * 4 + DEVICE.get(event.device);
        return row;
    }

    /** Takes in the score of the event that was added last. */
    public void scored(float score) {
        if (scores.length < SCORES) {
            scores = Arrays.copyOf(scores, scores.length + 1);
        } else {
            System.arraycopy(scores, 1, scores, 0, SCORES - 1);
        }
        scores[scores.length - 1] = score;
    }

    private static long[] window(long[] panes, int window, long ts, long cents, float[] row) {
        long pane = ts / PANE_MS[window];
        panes = insert(panes, pane, PANES[window], cents);
        long count = 0, sum = 0, most = 0;
        for (int at = 0; at < panes.length && panes[at] <= pane; at += 4) {
            count += panes[at + 1];
            sum += panes[at + 2];
            most = Math.max(most, panes[at + 3]);
        }
        row[4 * window] = count;
        row[4 * window + 1] = (float) (sum / 100.0);
        row[4 * window + 2] = count == 0 ? 0 : (float) (sum / 100.0 / count);
        row[4 * window + 3] = (float) (most / 100.0);
        return panes;
    }

    private static long[] insert(long[] panes, long pane, int most, long cents) {
        long newest = panes.length == 0 ? pane : Math.max(pane, panes[panes.length - 4]);
        if (pane <= newest - most) {
            return panes;
        }
        int at = panes.length; // of the pane, or of the first one after it
        while (at > 0 && panes[at - 4] >= pane) {
            at -= 4;
        }
        if (at < panes.length && panes[at] == pane) {
            panes[at + 1]++;
            panes[at + 2] += cents;
            panes[at + 3] = Math.max(panes[at + 3], cents);
            return panes;
        }
        int ended = 0;
        while (ended < at && panes[ended] <= newest - most) {
            ended += 4;
        }
        long[] made = new long[panes.length - ended + 4];
        System.arraycopy(panes, ended, made, 0, at - ended);
        System.arraycopy(panes, at, made, at - ended + 4, panes.length - at);
        made[at - ended] = pane;
        made[at - ended + 1] = 1;
        made[at - ended + 2] = cents;
        made[at - ended + 3] = cents;
        return made;
    }
}
