use super::*;

const SOON: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_claim_ends_by_itself_and_whoever_waits_for_that_is_told() {
    let claim = Claim::default();
    let mut changes = claim.changes();
    assert!(!claim.holds() && !*changes.borrow());
    let telling = tokio::spawn({
        let claim = claim.clone();
        async move { claim.tell().await }
    });
    claim.extend(clock::monotonic() + SOON);
    assert!(claim.holds());
    assert!(changes.wait_for(|holds| *holds).await.is_ok());
    claim.lost().await;
    assert!(!claim.holds());
    assert!(changes.wait_for(|holds| !*holds).await.is_ok());
    claim.extend(clock::monotonic() + SOON);
    assert!(changes.wait_for(|holds| *holds).await.is_ok(), "it may begin again");
    assert!(changes.wait_for(|holds| !*holds).await.is_ok(), "and end again");
    telling.abort();
}

#[tokio::test]
async fn a_claim_that_is_renewed_late_begins_anew_though_nobody_was_told_that_it_ended() {
    let claim = Claim::default();
    let mut changes = claim.changes();
    claim.extend(clock::monotonic() + SOON);
    assert!(*changes.borrow_and_update());
    claim.extend(clock::monotonic() + SOON);
    assert!(!changes.has_changed().unwrap(), "it went on");
    claim.lost().await;
    claim.extend(clock::monotonic() + SOON);
    assert!(changes.has_changed().unwrap(), "what was left undone meanwhile has to be looked at");
    assert!(*changes.borrow_and_update());
}

#[tokio::test]
async fn a_claim_that_is_extended_goes_on_and_one_that_is_given_up_ends_at_once() {
    let claim = Claim::default();
    claim.extend(clock::monotonic() + SOON);
    claim.extend(clock::monotonic() + Duration::from_secs(600));
    let extended = tokio::time::timeout(2 * SOON, claim.lost()).await;
    assert!(extended.is_err() && claim.holds());
    let lost = tokio::spawn({
        let claim = claim.clone();
        async move { claim.lost().await }
    });
    tokio::task::yield_now().await;
    claim.give_up();
    assert!(!claim.holds());
    tokio::time::timeout(Duration::from_secs(10), lost).await.unwrap().unwrap();
    assert!(Claim::always().holds());
}

#[test]
fn a_lease_says_what_was_written_and_one_that_says_nothing_is_free() {
    let written = Record {
        holder: "me".to_owned(),
        duration: DURATION,
        acquired: 1_700_000_000_000_000,
        renewed: 1_700_000_000_500_010,
        transitions: 4,
    };
    let lease = Lease { spec: Some(spec(&written)), ..Lease::default() };
    assert_eq!(record(&lease), written);
    let text = serde_json::to_string(&lease).unwrap();
    assert!(text.contains("2023-11-14T22:13:20.500010Z"), "API servers want six digits: {text}");
    assert_eq!(record(&Lease::default()).holder, "");
}

#[test]
fn replicas_call_themselves_differently_and_do_not_stay_in_step() {
    assert_ne!(identity(), identity());
    for _ in 0..1000 {
        let pause = jittered(RETRY);
        assert!(RETRY / 2 <= pause && pause <= RETRY, "{pause:?}");
    }
}

#[test]
fn what_keeps_us_from_competing_is_said_with_the_way_out() {
    let explain = |code, message: &str| {
        let status = kube::core::Status::failure(message, "").with_code(code).boxed();
        Failure::Refused(Box::new(kube::Error::Api(status))).explain("home", "tombolo-hub")
    };
    let missing = explain(404, "namespaces \"home\" not found");
    assert!(
        missing.starts_with("waiting for namespace home") && missing.contains("--namespace"),
        "{missing}"
    );
    let gone = explain(404, "leases.coordination.k8s.io \"tombolo-hub\" not found");
    assert!(!gone.contains("waiting for namespace"), "{gone}");
    let forbidden = explain(403, "leases is forbidden: User \"x\" cannot create resource \"leases\"");
    assert!(forbidden.contains("allow get, create and update of leases"), "{forbidden}");
}
