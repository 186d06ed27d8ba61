use serde_json::{Value, json};

use crate::decide::copy::*;

use super::{key, stamps, yaml};

fn toy() -> ObjectKey {
    key("x.dev/v1", "Toy", "shop", "a")
}

#[test]
fn a_copy_has_what_the_template_says_and_our_marks() {
    let template =
        yaml("{apiVersion: x.dev/v1, kind: Toy, metadata: {name: a, namespace: shop}, spec: {b: 1}}");
    let rendered = render(template, "x.dev/v2", &stamps(toy()));
    let annotations = json!({
        "tombolo.dev/applied": rendered.applied, "tombolo.dev/origin": stamps(toy()).origin.text(),
        "tombolo.dev/policies": "p",
    });
    assert_eq!(
        rendered.body,
        json!({
            "apiVersion": "x.dev/v2", "kind": "Toy", "spec": { "b": 1 },
            "metadata": {
                "name": "a", "namespace": "shop", "labels": { "tombolo.dev/hub": "hub-1" }, "annotations": annotations,
            },
        })
    );
}

#[test]
fn the_hash_is_the_same_in_every_release() {
    let template = yaml("{metadata: {labels: {a: b}}, spec: {z: [1, 2.5, null, true], a: é}}");
    assert_eq!(&*render(template, "x.dev/v1", &stamps(toy())).applied, "e5230dc243f294ce2d1e3b650b4d0b20");
}

#[test]
fn the_order_of_fields_does_not_matter() {
    let one = render(yaml("{spec: {a: 1, b: 2}, data: {}}"), "x.dev/v1", &stamps(toy()));
    let other = render(yaml("{data: {}, spec: {b: 2, a: 1}}"), "x.dev/v1", &stamps(toy()));
    assert_eq!(one.applied, other.applied);
    assert_eq!(one.body.to_string(), other.body.to_string());
}

#[test]
fn all_that_is_applied_counts_for_the_hash() {
    let applied = |template: &str, api_version: &str, stamps: &Stamps| {
        render(yaml(template), api_version, stamps).applied
    };
    let plain = applied("{spec: {b: 1}}", "x.dev/v1", &stamps(toy()));
    assert_eq!(plain, applied("{spec: {b: 1}}", "x.dev/v1", &stamps(toy())));
    for other in [
        applied("{spec: {b: 2}}", "x.dev/v1", &stamps(toy())),
        applied("{spec: {b: 1}, metadata: {labels: {a: b}}}", "x.dev/v1", &stamps(toy())),
        applied("{spec: {b: 1}}", "x.dev/v2", &stamps(toy())),
        applied("{spec: {b: 1}}", "x.dev/v1", &Stamps { preserve: true, ..stamps(toy()) }),
        applied("{spec: {b: 1}}", "x.dev/v1", &Stamps { adopted: true, ..stamps(toy()) }),
        applied("{spec: {b: 1}}", "x.dev/v1", &Stamps { delete_with_policy: true, ..stamps(toy()) }),
        applied("{spec: {b: 1}}", "x.dev/v1", &Stamps { policy: Some("shop/p".into()), ..stamps(toy()) }),
        applied("{spec: {b: 1}}", "x.dev/v1", &Stamps { hub: "hub-2".into(), ..stamps(toy()) }),
    ] {
        assert_ne!(plain, other);
    }
}

#[test]
fn what_holds_when_policy_and_template_are_gone_is_stamped_on_the_copy() {
    let stamps = Stamps { preserve: true, delete_with_policy: true, adopted: true, ..stamps(toy()) };
    let body = render(yaml("{}"), "x.dev/v1", &stamps).body;
    let annotations = &body["metadata"]["annotations"];
    assert_eq!(annotations["tombolo.dev/preserve-on-deletion"], "true");
    assert_eq!(annotations["tombolo.dev/on-policy-deletion"], "delete");
    assert_eq!(annotations["tombolo.dev/adopted"], "true");
}

#[test]
fn overrides_change_neither_what_a_copy_is_nor_our_marks() {
    let plain = render(yaml("{spec: {b: 1}}"), "x.dev/v1", &stamps(toy()));
    for overridden in [
        "{apiVersion: y.dev/v1, kind: Doll, metadata: {name: b, namespace: other}, spec: {b: 1}}",
        "{metadata: {labels: {tombolo.dev/hub: h}, annotations: {tombolo.dev/origin: x, tombolo.dev/applied: y, \
           tombolo.dev/adopted: 'true', tombolo.dev/anything: z}}, spec: {b: 1}}",
        "{metadata: {finalizers: [x], ownerReferences: [{name: o}], generateName: b-}, spec: {b: 1}}",
        "{metadata: text, spec: {b: 1, c: null}, status: {d: 1}}",
        "{metadata: {labels: [], annotations: text}, spec: {b: 1}}",
    ] {
        assert_eq!(render(yaml(overridden), "x.dev/v1", &stamps(toy())), plain, "{overridden}");
    }
}

#[test]
fn an_object_of_the_whole_cluster_gets_no_namespace() {
    let stamps = stamps(key("v1", "Namespace", "", "shop"));
    let body = render(yaml("{metadata: {namespace: x}}"), "v1", &stamps).body;
    assert_eq!(body["metadata"].get("namespace"), None);
    assert_eq!(body["metadata"]["name"], "shop");
}

#[test]
fn the_rule_for_port_conflicts_survives_on_a_service() {
    let annotated = "{metadata: {annotations: {tombolo.dev/port-conflicts: resolve}}}";
    let body = render(yaml(annotated), "v1", &stamps(key("v1", "Service", "shop", "a"))).body;
    assert_eq!(body["metadata"]["annotations"]["tombolo.dev/port-conflicts"], "resolve");
}

fn object(kind: &str, spec: &str) -> Value {
    let (api_version, kind) = kind.split_once(' ').unwrap();
    yaml(&format!("{{apiVersion: {api_version}, kind: {kind}, spec: {spec}}}"))
}

#[test]
fn replicas_are_read_and_set_where_a_kind_has_them() {
    for (kind, spec, read, set) in [
        ("apps/v1 Deployment", "{replicas: 5}", Some(5), "{replicas: 2}"),
        ("apps/v1 Deployment", "{}", None, "{replicas: 2}"),
        ("apps/v1 StatefulSet", "{replicas: 0}", Some(0), "{replicas: 2}"),
        ("x.dev/v1 Toy", "{replicas: 5}", Some(5), "{replicas: 2}"),
        ("x.dev/v1 Toy", "{replicas: five}", None, "{replicas: five}"),
        ("x.dev/v1 Toy", "{replicas: -1}", None, "{replicas: -1}"),
        ("x.dev/v1 Deployment", "{}", None, "{}"),
        ("apps/v1 DaemonSet", "{}", None, "{}"),
        ("batch/v1 Job", "{parallelism: 5, replicas: 7}", Some(5), "{parallelism: 2, replicas: 7}"),
        ("batch/v1 Job", "{parallelism: 5, completions: 10}", Some(5), "{parallelism: 2, completions: 4}"),
        ("batch/v1 Job", "{parallelism: 3, completions: 10}", Some(3), "{parallelism: 2, completions: 7}"),
        ("batch/v1 Job", "{parallelism: 0, completions: 10}", Some(0), "{parallelism: 2, completions: 10}"),
        ("batch/v1 CronJob", "{parallelism: 5}", None, "{parallelism: 5}"),
    ] {
        let mut object = object(kind, spec);
        assert_eq!(replicas(&object), read, "{kind} {spec}");
        set_replicas(&mut object, 2);
        assert_eq!(object["spec"], yaml(set), "{kind} {spec}");
    }
}

#[test]
fn the_completions_of_a_job_can_be_divided_by_themselves() {
    let mut job = object("batch/v1 Job", "{parallelism: 3, completions: 10}");
    assert_eq!(completions(&job), Some(10));
    set_replicas(&mut job, 1);
    set_completions(&mut job, 3);
    assert_eq!(job["spec"], yaml("{parallelism: 1, completions: 3}"));
    let mut queue = object("batch/v1 Job", "{parallelism: 3}");
    set_completions(&mut queue, 3);
    assert_eq!(queue["spec"], yaml("{parallelism: 3}"));
    assert_eq!(completions(&object("x.dev/v1 Job", "{completions: 1}")), None);
}

#[test]
fn replicas_are_left_to_the_member_by_karmadas_mark() {
    for (metadata, retained) in [
        ("{labels: {resourcetemplate.karmada.io/retain-replicas: 'true'}}", true),
        ("{annotations: {resourcetemplate.karmada.io/retain-replicas: 'true'}}", true),
        ("{labels: {resourcetemplate.karmada.io/retain-replicas: 'false'}}", false),
        ("{}", false),
    ] {
        let object = yaml(&format!("{{metadata: {metadata}}}"));
        assert_eq!(retains_replicas(&object), retained, "{metadata}");
    }
    let mut deployment = object("apps/v1 Deployment", "{replicas: 5, paused: true}");
    leave_replicas(&mut deployment);
    assert_eq!(deployment["spec"], yaml("{paused: true}"));
}
