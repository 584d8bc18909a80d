import com.yahoo.labs.samoa.instances.Instance;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.List;
import moa.classifiers.bayes.NaiveBayes;
import moa.core.Example;
import moa.streams.ArffFileStream;

/** MOA's naive Bayes, test then train, over a file that is read beforehand: arguments are the file and the rounds. */
public class Prequential {
  public static void main(String[] arguments) {
    ArffFileStream stream = new ArffFileStream(arguments[0], -1);
    stream.prepareForUse();
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    List<Example<Instance>> events = new ArrayList<>();
    while (stream.hasMoreInstances()) {
      events.add(stream.nextInstance());
    }
    for (int round = 0; round < Integer.parseInt(arguments[1]); round++) {
      NaiveBayes model = new NaiveBayes();
      model.setModelContext(stream.getHeader());
      model.prepareForUse();
      int right = 0;
      long started = threads.getCurrentThreadCpuTime();
      for (Example<Instance> event : events) {
        if (model.correctlyClassifies(event.getData())) {
          right++;
        }
        model.trainOnInstance(event.getData());
      }
      double seconds = (threads.getCurrentThreadCpuTime() - started) / 1e9;
      System.out.println(seconds + " " + (double) right / events.size());
    }
  }
}
