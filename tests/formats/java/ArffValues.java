import java.io.FileReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Prints the rows of ARFF files as JSON: a line for each file and program, the weight and the values of each row. */
public class ArffValues {
    public static void main(String[] files) {
        for (String file : files) {
            System.out.println(text(() -> ofWeka(file)));
            System.out.println(text(() -> ofMoa(file)));
        }
    }

    interface Reading { List<String> rows() throws Exception; }

    static String text(Reading reading) {
        try {
            return "[" + String.join(",", reading.rows()) + "]";
        } catch (Exception | Error error) {
            return quoted(String.valueOf(error.getMessage()));
        }
    }

    static FileReader open(String file) throws IOException { return new FileReader(file, StandardCharsets.UTF_8); }

    static List<String> ofWeka(String file) throws Exception {
        List<String> rows = new ArrayList<>();
        for (weka.core.Instance row : new weka.core.Instances(open(file))) {
            List<String> cells = new ArrayList<>(List.of(Double.toString(row.weight())));
            for (int i = 0; i < row.numAttributes(); i++) {
                cells.add(row.isMissing(i) ? "null" : row.attribute(i).isNumeric() ? Double.toString(row.value(i)) : quoted(row.stringValue(i)));
            }
            rows.add("[" + String.join(",", cells) + "]");
        }
        return rows;
    }

    static List<String> ofMoa(String file) throws Exception {
        List<String> rows = new ArrayList<>();
        com.yahoo.labs.samoa.instances.Instances all = new com.yahoo.labs.samoa.instances.Instances(open(file), 0, -1);
        all.setClassIndex(all.numAttributes() - 1);
        while (all.readInstance(null)) {
            com.yahoo.labs.samoa.instances.Instance row = all.instance(all.numInstances() - 1);
            List<String> cells = new ArrayList<>(List.of(Double.toString(row.weight())));
            for (int i = 0; i < row.numAttributes(); i++) {
                com.yahoo.labs.samoa.instances.Attribute one = row.attribute(i);
                cells.add(row.isMissing(i) ? "null" : one.isNumeric() ? Double.toString(row.value(i)) : quoted(one.value((int) row.value(i))));
            }
            rows.add("[" + String.join(",", cells) + "]");
        }
        return rows;
    }

    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            out.append(c < 32 || c > 126 || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
        }
        return out.append('"').toString();
    }
}
