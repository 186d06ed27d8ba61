//! How the replicas of a workload are shared out among the clusters it is placed on (Karmada's `replicaScheduling`).
//!
//! `Divided` uses the largest remainder method: every cluster gets its exact share rounded down, and what is left goes,
//! one each, to those that lost most by rounding. No cluster is ever a whole replica away from its exact share. The price
//! is the Alabama paradox: one replica more in all can be one fewer for a cluster of small weight. (Karmada 1.18 divides
//! by Webster's method, which is the other way round.)

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::ids::ClusterName;

/// How replicas are shared out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Division {
    /// Each cluster runs all of them. Also what Karmada does where a placement says nothing of replicas.
    Duplicated,
    /// They are divided by static weight. A cluster without a weight has none; if no cluster has one, all have the same.
    Weighted(BTreeMap<ClusterName, u64>),
}

/// The replicas of each cluster. Every cluster that was asked for is in the answer, with 0 where it gets none.
///
/// Divided replicas add up to exactly `replicas`, if there is any cluster at all. Clusters that lost as much by rounding
/// are served in the order of their names.
pub fn divide(
    replicas: u32,
    clusters: &BTreeSet<ClusterName>,
    division: &Division,
) -> BTreeMap<ClusterName, u32> {
    match division {
        Division::Duplicated => clusters.iter().map(|cluster| (cluster.clone(), replicas)).collect(),
        Division::Weighted(weights) => by_weight(replicas, clusters, weights),
    }
}

fn by_weight(
    replicas: u32,
    clusters: &BTreeSet<ClusterName>,
    weights: &BTreeMap<ClusterName, u64>,
) -> BTreeMap<ClusterName, u32> {
    let weight = |cluster| weights.get(cluster).copied().unwrap_or(0);
    // Wide enough for the product of any replicas and weight, and for the sum of any weights that fit in memory.
    let sum: u128 = clusters.iter().map(|cluster| u128::from(weight(cluster))).sum();
    let (sum, equal) = if sum == 0 { (clusters.len() as u128, true) } else { (sum, false) };

    let mut shares = BTreeMap::new();
    let mut remainders = Vec::new();
    let mut left = replicas;
    for cluster in clusters {
        let weight = if equal { 1 } else { u128::from(weight(cluster)) };
        let exact = u128::from(replicas) * weight;
        let share = u32::try_from(exact / sum).expect("a share is not more than the whole");
        left -= share;
        shares.insert(cluster.clone(), share);
        remainders.push((Reverse(exact % sum), cluster));
    }
    // Fewer are left than clusters lost something, so that none without a weight gets any.
    remainders.sort_unstable();
    for (_, cluster) in remainders.into_iter().take(left as usize) {
        *shares.entry(cluster.clone()).or_default() += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: u32 = i32::MAX as u32;

    fn name(index: usize) -> ClusterName {
        format!("c{index:02}").parse().unwrap()
    }

    fn weights(of: &[u64]) -> BTreeMap<ClusterName, u64> {
        of.iter().enumerate().map(|(index, weight)| (name(index), *weight)).collect()
    }

    /// Divides by the weights of clusters c0, c1 …
    fn divided(replicas: u32, of: &[u64]) -> Vec<u32> {
        let weights = weights(of);
        let clusters = weights.keys().cloned().collect();
        divide(replicas, &clusters, &Division::Weighted(weights)).into_values().collect()
    }

    #[test]
    fn duplicated_gives_all_replicas_to_each_cluster() {
        let clusters = BTreeSet::from([name(0), name(1)]);
        let shares = divide(MOST, &clusters, &Division::Duplicated);
        assert_eq!(shares, BTreeMap::from([(name(0), MOST), (name(1), MOST)]));
    }

    #[test]
    fn replicas_are_divided_by_weight_and_the_largest_remainder() {
        let table: &[(u32, &[u64], &[u32])] = &[
            (9, &[1, 2], &[3, 6]),
            (9, &[1, 3], &[2, 7]),
            (10, &[1, 1, 1], &[4, 3, 3]),
            (2, &[1, 1, 1], &[1, 1, 0]),
            (1, &[1, 100], &[0, 1]),
            (0, &[1, 2], &[0, 0]),
            (5, &[7], &[5]),
            (3, &[], &[]),
            (1, &[1, 1], &[1, 0]),
            (10, &[6, 6, 2], &[4, 4, 2]),
        ];
        for (replicas, weights, expected) in table {
            assert_eq!(divided(*replicas, weights), *expected, "{replicas} by {weights:?}");
        }
    }

    #[test]
    fn without_weights_the_division_is_equal() {
        let clusters = BTreeSet::from([name(0), name(1), name(2)]);
        let shares = divide(7, &clusters, &Division::Weighted(BTreeMap::new()));
        assert_eq!(shares.into_values().collect::<Vec<_>>(), [3, 2, 2]);
        assert_eq!(divided(7, &[0, 0, 0]), [3, 2, 2]);
    }

    #[test]
    fn a_cluster_without_a_weight_gets_none_where_others_have_one() {
        assert_eq!(divided(7, &[2, 0, 1]), [5, 0, 2]);
        let clusters = BTreeSet::from([name(0), name(1)]);
        let shares = divide(7, &clusters, &Division::Weighted(weights(&[3])));
        assert_eq!(shares, BTreeMap::from([(name(0), 7), (name(1), 0)]));
    }

    #[test]
    fn a_weight_of_a_cluster_that_is_not_asked_for_counts_for_nothing() {
        let clusters = BTreeSet::from([name(0), name(1)]);
        let shares = divide(4, &clusters, &Division::Weighted(weights(&[1, 1, 100])));
        assert_eq!(shares, BTreeMap::from([(name(0), 2), (name(1), 2)]));
    }

    #[test]
    fn the_greatest_replicas_and_weights_do_not_overflow() {
        assert_eq!(divided(MOST, &[u64::MAX, u64::MAX]), [MOST / 2 + 1, MOST / 2]);
        assert_eq!(divided(u32::MAX, &[u64::MAX; 3]), [u32::MAX / 3; 3]);
    }

    #[test]
    fn one_replica_more_can_be_one_fewer_for_a_small_cluster() {
        assert_eq!(divided(10, &[6, 6, 2]), [4, 4, 2]);
        assert_eq!(divided(11, &[6, 6, 2]), [5, 5, 1]);
    }

    fn any_weight() -> impl Strategy<Value = u64> {
        prop_oneof![4 => 0..6u64, 2 => 0..1000u64, 1 => Just(u64::MAX), 1 => any::<u64>()]
    }

    fn any_replicas() -> impl Strategy<Value = u32> {
        prop_oneof![3 => 0..30u32, 1 => 0..=MOST, 1 => Just(MOST)]
    }

    proptest! {
        #[test]
        fn the_shares_add_up_to_the_replicas(
            replicas in any_replicas(), of in prop::collection::vec(any_weight(), 1..12),
        ) {
            let sum: u64 = divided(replicas, &of).into_iter().map(u64::from).sum();
            prop_assert_eq!(sum, u64::from(replicas));
        }

        #[test]
        fn every_share_is_within_one_of_the_exact_share(
            replicas in any_replicas(), of in prop::collection::vec(any_weight(), 1..12),
        ) {
            let of = if of.iter().all(|weight| *weight == 0) { vec![1; of.len()] } else { of };
            let sum: u128 = of.iter().map(|weight| u128::from(*weight)).sum();
            for (share, weight) in divided(replicas, &of).into_iter().zip(&of) {
                let (share, exact) = (u128::from(share) * sum, u128::from(replicas) * u128::from(*weight));
                prop_assert!(share.abs_diff(exact) < sum, "{share} and {exact} of {sum}");
            }
        }

        #[test]
        fn a_greater_weight_never_gets_fewer(
            replicas in any_replicas(), of in prop::collection::vec(any_weight(), 1..12),
        ) {
            let shares = divided(replicas, &of);
            for (a, weight_a) in of.iter().enumerate() {
                for (b, weight_b) in of.iter().enumerate() {
                    prop_assert!(weight_a <= weight_b || shares[a] >= shares[b]);
                }
            }
        }

        #[test]
        fn of_equal_weights_the_first_by_name_gets_at_most_one_more(
            replicas in any_replicas(), of in prop::collection::vec(0..4u64, 1..12),
        ) {
            let shares = divided(replicas, &of);
            for a in 0..of.len() {
                for b in (a..of.len()).filter(|b| of[a] == of[*b]) {
                    prop_assert!(shares[a] == shares[b] || shares[a] == shares[b] + 1);
                }
            }
        }

        #[test]
        fn weights_count_by_their_ratio_only(
            replicas in any_replicas(), of in prop::collection::vec(0..50u64, 1..8), factor in 1..1000u64,
        ) {
            let scaled: Vec<u64> = of.iter().map(|weight| weight * factor).collect();
            prop_assert_eq!(divided(replicas, &of), divided(replicas, &scaled));
        }

        #[test]
        fn clusters_without_a_weight_change_nothing_for_the_others(
            replicas in any_replicas(), of in prop::collection::vec(1..50u64, 1..8), more in 0..4usize,
        ) {
            let before = divided(replicas, &of);
            let mut longer = of.clone();
            longer.extend(std::iter::repeat_n(0, more));
            prop_assert_eq!(&divided(replicas, &longer)[..of.len()], &before[..]);
        }
    }
}
