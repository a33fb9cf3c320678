import java.util.Map;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.FeatureVersion;

/** Prints each level of each production feature: name, level, first metadata.version, metadata.version that it depends on. */
public class FeatureLister {
    public static void main(String[] arguments) {
        for (Feature feature : Feature.PRODUCTION_FEATURES) {
            for (FeatureVersion version : feature.featureVersions()) {
                if (version.featureLevel() < 1 || version.featureLevel() > feature.latestProduction()) continue;
                Map<String, Short> needs = version.dependencies();
                System.out.println(String.join("\t", feature.featureName(), "" + version.featureLevel(),
                    "" + version.bootstrapMetadataVersion().featureLevel(),
                    "" + needs.getOrDefault("metadata.version", (short) 0)));
            }
        }
    }
}
