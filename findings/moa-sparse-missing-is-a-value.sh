#!/usr/bin/env bash
# MOA 2024.07.0: a missing value of a sparse ARFF row is not missing.
#
# One would guess: `{0 3.5, 1 ?}` and `3.5, ?` are the same row, as for Weka, whose format it is. Seen: MOA's own
# reader (`ArffFileStream`, which `-s (ArffFileStream -f FILE)` uses) adds a third value to the two that are
# declared, gives the sparse row that value, and `isMissing` is false. So learners count a value that nobody
# declared or observed, without a message. The dense row is read right. (A missing number of a sparse row
# is refused: a NumberFormatException is raised.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mvn --quiet dependency:get -Dartifact=nz.ac.waikato.cms.moa:moa:2024.07.0
cat >pom.xml <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId>
  <artifactId>finding</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>nz.ac.waikato.cms.moa</groupId><artifactId>moa</artifactId><version>2024.07.0</version></dependency>
  </dependencies>
</project>
XML
mvn --quiet dependency:copy-dependencies -DoutputDirectory=jars
for form in dense sparse; do
    printf '@relation r\n@attribute n numeric\n@attribute v {red,green}\n@attribute m numeric\n@attribute class {a,b}\n@data\n' >$form.arff
done
printf '3.5,?,2.5,b\n1,green,2.5,b\n' >>dense.arff
printf '{0 3.5, 1 ?, 2 2.5, 3 b}\n{0 1, 1 green, 2 2.5, 3 b}\n' >>sparse.arff
cat >Missing.java <<'JAVA'
import com.yahoo.labs.samoa.instances.Instance;
import moa.streams.ArffFileStream;

public class Missing {
    public static void main(String[] files) {
        for (String file : files) {
            ArffFileStream stream = new ArffFileStream(file, -1);
            stream.prepareForUse();
            Instance row = stream.nextInstance().getData();
            System.out.println(file + ": v missing " + row.isMissing(1) + ", value " + row.value(1)
                + " of " + row.attribute(1).numValues() + ", m " + row.value(2));
        }
    }
}
JAVA
java -cp 'jars/*' Missing.java dense.arff sparse.arff | tee seen
grep -q '^dense.arff: v missing true, value NaN of 2, m 2.5$' seen
grep -q '^sparse.arff: v missing false, value 2.0 of 3, m 2.5$' seen
