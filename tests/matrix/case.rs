//! Which cases there are.

use std::collections::BTreeMap;
use std::fmt;

use super::Circumstance;
use crate::faults::{Edge, WireEffect};

/// One case of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Which effect is struck.
    pub effect: WireEffect,
    /// What happens to it.
    pub edge: Edge,
    /// What else is the matter.
    pub circumstance: Circumstance,
}

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// A handful, for every `cargo test`.
    Test,
    /// Every effect at every edge, the circumstances taking turns so that each effect meets each of them.
    Ci,
    /// Everything that applies.
    Full,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.effect, self.edge, self.circumstance)
    }
}

impl Case {
    /// Calls that are struck in a row: more than the SDK tries by itself, so that the worker's own patience is asked
    /// too. A worker dies once.
    pub(crate) fn times(self) -> u32 {
        const MORE_THAN_THE_SDK_TRIES: u32 = 4;
        match self.edge {
            Edge::Dropped | Edge::Refused | Edge::Throttled | Edge::Conflicted | Edge::AnswerLost => {
                MORE_THAN_THE_SDK_TRIES
            }
            _ => 1,
        }
    }
}

/// Effects with the edges that apply to them.
fn pairs() -> impl Iterator<Item = (usize, WireEffect, Edge)> {
    WireEffect::ALL.into_iter().flat_map(|effect| {
        let edges = Edge::TRIED.into_iter().filter(move |edge| edge.inapplicable(effect).is_none());
        edges.enumerate().map(move |(turn, edge)| (turn, effect, edge))
    })
}

impl Size {
    /// The cases, in their order.
    pub fn cases(self) -> Vec<Case> {
        let mut cases = Vec::new();
        for (number, (turn, effect, edge)) in pairs().enumerate() {
            let applies = |circumstance: &Circumstance| circumstance.inapplicable(effect).is_none();
            let circumstances: Vec<Circumstance> = Circumstance::ALL.into_iter().filter(applies).collect();
            let chosen = match self {
                Self::Full => circumstances,
                // Begins with another circumstance at each effect, and goes on by one at each edge.
                Self::Ci | Self::Test => {
                    let at = (turn + effect as usize) % circumstances.len().max(1);
                    circumstances.get(at..=at).unwrap_or_default().to_vec()
                }
            };
            // A step that is prime to the number of edges: another effect, and in time each edge.
            if self != Self::Test || number % 19 == 3 {
                cases.extend(chosen.into_iter().map(|circumstance| Case { effect, edge, circumstance }));
            }
        }
        cases
    }
}

/// Combinations that are left out of the full matrix, by reason.
pub fn inapplicable() -> BTreeMap<&'static str, Vec<String>> {
    let mut left_out: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for effect in WireEffect::ALL {
        for edge in Edge::TRIED {
            if let Some(why) = edge.inapplicable(effect) {
                left_out.entry(why).or_default().push(format!("{effect}/{edge}"));
            }
        }
        for circumstance in Circumstance::ALL {
            if let Some(why) = circumstance.inapplicable(effect) {
                left_out.entry(why).or_default().push(format!("{effect}/{circumstance}"));
            }
        }
    }
    left_out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_effect_meets_every_edge_and_every_circumstance_at_ci_size() {
        let cases = Size::Ci.cases();
        assert!(cases.len() >= 60, "{}", cases.len());
        for effect in WireEffect::ALL {
            let of_effect: Vec<&Case> = cases.iter().filter(|case| case.effect == effect).collect();
            for edge in Edge::TRIED.into_iter().filter(|edge| edge.inapplicable(effect).is_none()) {
                assert!(of_effect.iter().any(|case| case.edge == edge), "{effect}/{edge}");
            }
            for one in Circumstance::ALL.into_iter().filter(|one| one.inapplicable(effect).is_none()) {
                assert!(of_effect.iter().any(|case| case.circumstance == one), "{effect}/{one}");
            }
        }
    }

    #[test]
    fn the_full_matrix_is_everything_but_what_is_left_out_with_a_reason() {
        let full = Size::Full.cases();
        let left_out: BTreeSet<String> = inapplicable().into_values().flatten().collect();
        let mut all = 0;
        for effect in WireEffect::ALL {
            for edge in Edge::TRIED {
                for circumstance in Circumstance::ALL {
                    let is_left_out = left_out.contains(&format!("{effect}/{edge}"))
                        || left_out.contains(&format!("{effect}/{circumstance}"));
                    assert_eq!(full.contains(&Case { effect, edge, circumstance }), !is_left_out);
                    all += 1;
                }
            }
        }
        assert_eq!(all, 21 * 8 * 5);
        assert!(Size::Ci.cases().iter().all(|case| full.contains(case)));
    }
}
