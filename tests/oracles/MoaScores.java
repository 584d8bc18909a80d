import com.yahoo.labs.samoa.instances.Attribute;
import com.yahoo.labs.samoa.instances.DenseInstance;
import com.yahoo.labs.samoa.instances.Instance;
import com.yahoo.labs.samoa.instances.Instances;
import com.yahoo.labs.samoa.instances.InstancesHeader;
import java.io.BufferedReader;
import java.io.FileReader;
import java.util.ArrayList;
import java.util.List;
import moa.core.Example;
import moa.core.InstanceExample;
import moa.evaluation.BasicAUCImbalancedPerformanceEvaluator;
import moa.evaluation.BasicClassificationPerformanceEvaluator;

/**
 * MOA's scores of predictions: each argument is a file with the number of classes in its first line, and then a line
 * for each event, the index of its label and the probability of each class. A line of scores is printed for each file.
 */
public class MoaScores {
  public static void main(String[] arguments) throws Exception {
    for (String file : arguments) {
      System.out.println(scores(file));
    }
  }

  private static String scores(String file) throws Exception {
    BasicClassificationPerformanceEvaluator all = new BasicClassificationPerformanceEvaluator();
    BasicAUCImbalancedPerformanceEvaluator ranks = new BasicAUCImbalancedPerformanceEvaluator();
    ranks.calculateAUC.setValue(true);
    int classes;
    try (BufferedReader lines = new BufferedReader(new FileReader(file))) {
      classes = Integer.parseInt(lines.readLine());
      ranks.reset(2);
      InstancesHeader header = header(classes);
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String[] cells = line.split(" ");
        Instance instance = new DenseInstance(1.0, new double[] {0.0, Double.parseDouble(cells[0])});
        instance.setDataset(header);
        double[] votes = new double[classes];
        for (int k = 0; k < classes; k++) {
          votes[k] = Double.parseDouble(cells[k + 1]);
        }
        Example<Instance> example = new InstanceExample(instance);
        all.addResult(example, votes);
        if (classes == 2) {
          ranks.addResult(example, votes);
        }
      }
    }
    StringBuilder f1 = new StringBuilder();
    for (int k = 0; k < classes; k++) {
      f1.append(" ").append(all.getF1Statistic(k));
    }
    double auc = classes == 2 ? ranks.getAucEstimator().getAUC() : Double.NaN;
    return all.getFractionCorrectlyClassified() + " " + all.getKappaStatistic() + " " + all.getKappaTemporalStatistic()
        + " " + auc + f1;
  }

  private static InstancesHeader header(int classes) {
    List<String> names = new ArrayList<>();
    for (int k = 0; k < classes; k++) {
      names.add("c" + k);
    }
    List<Attribute> attributes = new ArrayList<>();
    attributes.add(new Attribute("x"));
    attributes.add(new Attribute("label", names));
    InstancesHeader header = new InstancesHeader(new Instances("stream", attributes, 0));
    header.setClassIndex(1);
    return header;
  }
}
