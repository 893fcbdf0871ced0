package peers;

import java.nio.ByteBuffer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** A user's state in bytes: the store and its changelog hold these. */
final class StateSerde {
    private static final int PANE_BYTES = 4 + 4 + 8 + 8;

    private StateSerde() {}

    static Serde<UserState> serde() {
        return Serdes.serdeFrom((topic, state) -> state == null ? null : bytes(state), (topic, data) -> data == null ? null : state(data));
    }

    private static byte[] bytes(UserState state) {
        int panes = (state.minute.length + state.minutes.length + state.hour.length) / 4;
        ByteBuffer out = ByteBuffer.allocate(4 + 8 + PANE_BYTES * panes + 4 * state.scores.length);
        out.put((byte) (state.minute.length / 4)).put((byte) (state.minutes.length / 4)).put((byte) (state.hour.length / 4));
        out.put((byte) state.scores.length).putLong(state.last);
        put(out, state.minute);
        put(out, state.minutes);
        put(out, state.hour);
        for (float score : state.scores) {
            out.putFloat(score);
        }
        return out.array();
    }

    private static void put(ByteBuffer out, long[] panes) {
        for (int at = 0; at < panes.length; at += 4) {
            out.putInt((int) panes[at]).putInt((int) panes[at + 1]).putLong(panes[at + 2]).putLong(panes[at + 3]);
        }
    }

    private static UserState state(byte[] data) {
        ByteBuffer in = ByteBuffer.wrap(data);
        UserState state = new UserState();
        state.minute = new long[4 * in.get()];
        state.minutes = new long[4 * in.get()];
        state.hour = new long[4 * in.get()];
        state.scores = new float[in.get()];
        state.last = in.getLong();
        get(in, state.minute);
        get(in, state.minutes);
        get(in, state.hour);
        for (int i = 0; i < state.scores.length; i++) {
            state.scores[i] = in.getFloat();
        }
        return state;
    }

    private static void get(ByteBuffer in, long[] panes) {
        for (int at = 0; at < panes.length; at += 4) {
            panes[at] = in.getInt();
            panes[at + 1] = in.getInt();
            panes[at + 2] = in.getLong();
            panes[at + 3] = in.getLong();
        }
    }
}
