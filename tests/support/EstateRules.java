import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/** Rules of an estate's own, as companies have them: who may do what stands in this class, and names have a form. */
public class EstateRules {
    public static final String CLOSED = "closed-";
    public static final String ILL_NAMED = "ill-named-";

    /** Denies everything that is done with a topic of a closed name; it keeps no ACLs. */
    public static class ClosedTopics implements Authorizer {
        @Override
        public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo info) {
            Map<Endpoint, CompletionStage<Void>> ready = new HashMap<>();
            info.endpoints().forEach(each -> ready.put(each, CompletableFuture.completedFuture(null)));
            return ready;
        }

        @Override
        public List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions) {
            List<AuthorizationResult> results = new ArrayList<>();
            for (Action each : actions) {
                ResourceType type = each.resourcePattern().resourceType();
                // who may create in the whole cluster is not asked about each topic
                boolean everywhere = type == ResourceType.CLUSTER && each.operation() == AclOperation.CREATE;
                boolean closed = type == ResourceType.TOPIC && each.resourcePattern().name().startsWith(CLOSED);
                results.add(everywhere || closed ? AuthorizationResult.DENIED : AuthorizationResult.ALLOWED);
            }
            return results;
        }

        @Override
        public List<? extends CompletionStage<AclCreateResult>> createAcls(
                AuthorizableRequestContext context, List<AclBinding> bindings) {
            throw new UnsupportedOperationException("this estate keeps no ACLs");
        }

        @Override
        public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(
                AuthorizableRequestContext context, List<AclBindingFilter> filters) {
            throw new UnsupportedOperationException("this estate keeps no ACLs");
        }

        @Override
        public Iterable<AclBinding> acls(AclBindingFilter filter) {
            return List.of();
        }

        @Override
        public void configure(Map<String, ?> values) {}

        @Override
        public void close() {}
    }

    /** Refuses topics whose names do not have the form of this estate. */
    public static class NamesOfTopics implements CreateTopicPolicy {
        @Override
        public void validate(RequestMetadata request) {
            if (request.topic().startsWith(ILL_NAMED)) {
                throw new PolicyViolationException("names of topics have no such form here");
            }
        }

        @Override
        public void configure(Map<String, ?> values) {}

        @Override
        public void close() {}
    }
}
