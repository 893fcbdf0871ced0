package peers;

import biz.k11i.xgboost.Predictor;
import biz.k11i.xgboost.util.FVec;
import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The 200 trees, in Java. A predictor is read only: threads share it. */
public final class Model {
    private final Predictor predictor;

    public Model(String path) {
        try (InputStream in = new BufferedInputStream(Files.newInputStream(Path.of(path)))) {
            predictor = new Predictor(in);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    public float score(float[] row) {
        return predictor.predictSingle(FVec.Transformer.fromArray(row, false));
    }
}
