//! What each rank has, and who writes what.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::index::{Kind, PartIndex};
use super::tree;

/// A tensor, or a piece of one, that a rank could write.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TensorOffer {
    pub(super) name: String,
    pub(super) dtype: String,
    pub(super) global: Vec<usize>,
    pub(super) offset: Vec<usize>,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: u64,
    /// A checksum of some of its bytes, by which copies on several ranks are compared.
    pub(super) sample: Option<u32>,
    /// Whether copies may differ, and the first rank's counts: the buffers of a model, of which training broadcasts those.
    pub(super) first: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PartOffer {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) state: Json,
}

/// What a rank has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Offer {
    pub(super) parts: Vec<PartOffer>,
    pub(super) tensors: Vec<TensorOffer>,
}

/// What is to be saved, and which of its tensors each rank writes.
pub(super) struct Plan {
    pub(super) parts: Vec<PartIndex>,
    /// Dtype and shape of each tensor.
    pub(super) tensors: BTreeMap<String, (String, Vec<usize>)>,
    /// For each rank the numbers of the offers that it writes.
    pub(super) orders: Vec<Vec<usize>>,
}

/// Where each of the ranks in turn has something, for errors.
fn ranks(list: &[usize]) -> String {
    let list: Vec<String> = list.iter().map(usize::to_string).collect();
    format!("rank {}", list.join(", "))
}

/// Unites what the ranks have. An error says which ranks do not go together.
pub(super) fn plan(offers: Vec<Offer>) -> Result<Plan, String> {
    let world_size = offers.len();
    let mut parts: Vec<PartIndex> = Vec::new();
    let mut tensors: BTreeMap<String, (String, Vec<usize>)> = BTreeMap::new();
    let mut first: HashMap<String, usize> = HashMap::new();
    // By tensor, and within it by place: who could write it.
    type Places = BTreeMap<(Vec<usize>, Vec<usize>), Vec<(usize, usize)>>;
    let mut places: BTreeMap<String, Places> = BTreeMap::new();
    let mut sizes: HashMap<(usize, usize), u64> = HashMap::new();
    let mut samples: HashMap<(usize, usize), u32> = HashMap::new();
    for (rank, offer) in offers.into_iter().enumerate() {
        for part in offer.parts {
            add_part(&mut parts, rank, part)?;
        }
        let mut own = BTreeSet::new();
        for (number, t) in offer.tensors.into_iter().enumerate() {
            if !own.insert((t.name.clone(), t.offset.clone())) {
                return Err(format!(
                    "rank {rank} has two tensors of the name {}",
                    t.name
                ));
            }
            match tensors.get(&t.name) {
                None => {
                    first.insert(t.name.clone(), rank);
                    tensors.insert(t.name.clone(), (t.dtype.clone(), t.global.clone()));
                }
                Some((dtype, global)) if *dtype == t.dtype && *global == t.global => {}
                Some((dtype, global)) => {
                    return Err(format!(
                        "{} is {dtype} {global:?} on rank {} and {} {:?} on rank {rank}; tensors of which each rank holds \
                         a part need their layout (State::sharded), those of each rank's own State::per_rank",
                        t.name, first[&t.name], t.dtype, t.global
                    ));
                }
            }
            let name = t.name.clone();
            let places = places.entry(t.name).or_default();
            if t.bytes == 0 {
                continue;
            }
            let who = places.entry((t.offset, t.shape)).or_default();
            match who.first() {
                Some(_) if t.first => continue,
                Some(before)
                    if samples
                        .get(before)
                        .is_some_and(|s| t.sample.is_some_and(|o| *s != o)) =>
                {
                    return Err(format!(
                        "{name} has other values on rank {} than on rank {rank}, and was to be the same: ranks that hold \
                         parts of a tensor need their layout (State::sharded), those of which each has its own \
                         State::per_rank",
                        before.0
                    ));
                }
                _ => {}
            }
            who.push((rank, number));
            sizes.insert((rank, number), t.bytes);
            samples.extend(t.sample.map(|s| ((rank, number), s)));
        }
    }
    for (name, places) in &places {
        covered(name, &tensors[name].1, places)?;
    }
    Ok(Plan {
        parts,
        tensors,
        orders: balance(
            world_size,
            places.into_values().flat_map(Places::into_values),
            &sizes,
        ),
    })
}

fn add_part(parts: &mut Vec<PartIndex>, rank: usize, part: PartOffer) -> Result<(), String> {
    let Some(there) = parts.iter_mut().find(|p| p.name == part.name) else {
        let states = BTreeMap::from([(rank, part.state)]);
        parts.push(PartIndex {
            name: part.name,
            kind: part.kind,
            states,
        });
        return Ok(());
    };
    if there.kind != part.kind {
        return Err(format!(
            "the part `{}` is of another kind on {} than on rank {rank}",
            part.name,
            ranks(&there.states.keys().copied().collect::<Vec<_>>())
        ));
    }
    if part.kind == Kind::PerRank {
        there.states.insert(rank, part.state);
        return Ok(());
    }
    let name = part.name;
    let Some((before, state)) = there.states.iter_mut().next() else {
        return Ok(());
    };
    tree::merge(state, part.state, &name).map_err(|at| {
        format!(
            "{at} differs between rank {before} and rank {rank}, and was to be the same on all; \
             State::per_rank saves what each rank has of its own"
        )
    })
}

/// Whether the pieces make the whole tensor.
fn covered(
    name: &str,
    global: &[usize],
    places: &BTreeMap<(Vec<usize>, Vec<usize>), Vec<(usize, usize)>>,
) -> Result<(), String> {
    let all: usize = global.iter().product();
    let held: usize = places
        .keys()
        .map(|(_, s)| s.iter().product::<usize>())
        .sum();
    let boxes: Vec<_> = places.keys().collect();
    let apart = |a: &(Vec<usize>, Vec<usize>), b: &(Vec<usize>, Vec<usize>)| {
        (0..global.len()).any(|d| a.0[d] + a.1[d] <= b.0[d] || b.0[d] + b.1[d] <= a.0[d])
    };
    // In the order of their first dimension most are apart from their neighbours on.
    for (i, a) in boxes.iter().enumerate() {
        for b in &boxes[i + 1..] {
            if !global.is_empty() && a.0[0] + a.1[0] <= b.0[0] {
                break;
            }
            if !apart(a, b) {
                return Err(format!(
                    "two parts of {name} overlap: {:?} from {:?} on and {:?} from {:?} on",
                    a.1, a.0, b.1, b.0
                ));
            }
        }
    }
    match held == all {
        true => Ok(()),
        false => Err(format!(
            "the ranks' parts of {name} have {held} of the {all} elements of {global:?}"
        )),
    }
}

/// Gives each piece to the rank with the fewest bytes among those that have it: the largest first.
fn balance(
    world_size: usize,
    pieces: impl Iterator<Item = Vec<(usize, usize)>>,
    sizes: &HashMap<(usize, usize), u64>,
) -> Vec<Vec<usize>> {
    let mut load = vec![0u64; world_size];
    let mut orders = vec![Vec::new(); world_size];
    let mut shared: Vec<(u64, Vec<(usize, usize)>)> = Vec::new();
    for who in pieces {
        let bytes = who.first().and_then(|w| sizes.get(w)).copied().unwrap_or(0);
        match who[..] {
            [(rank, number)] => {
                load[rank] += bytes;
                orders[rank].push(number);
            }
            _ => shared.push((bytes, who)),
        }
    }
    // A stable order: each run of one program writes the same files.
    shared.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    for (bytes, who) in shared {
        if let Some(&(rank, number)) = who.iter().min_by_key(|(rank, _)| (load[*rank], *rank)) {
            load[rank] += bytes;
            orders[rank].push(number);
        }
    }
    for list in &mut orders {
        list.sort_unstable();
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tensor(name: &str, global: &[usize], offset: &[usize], shape: &[usize]) -> TensorOffer {
        TensorOffer {
            name: name.into(),
            dtype: "float32".into(),
            global: global.into(),
            offset: offset.into(),
            shape: shape.into(),
            bytes: 4 * shape.iter().product::<usize>() as u64,
            sample: Some(1),
            first: false,
        }
    }

    fn offer(tensors: Vec<TensorOffer>) -> Offer {
        Offer {
            parts: Vec::new(),
            tensors,
        }
    }

    #[test]
    fn replicated_tensors_are_spread_by_their_sizes() {
        let all = || {
            offer(vec![
                tensor("a", &[8], &[0], &[8]),
                tensor("b", &[4], &[0], &[4]),
                tensor("c", &[4], &[0], &[4]),
            ])
        };
        let plan = plan(vec![all(), all()]).expect("fits");
        assert_eq!(plan.orders, [vec![0], vec![1, 2]]);
    }

    #[test]
    fn copies_of_a_piece_are_written_once() {
        // Two groups of two ranks hold halves.
        let half = |r: usize| offer(vec![tensor("w", &[4, 2], &[2 * r, 0], &[2, 2])]);
        let plan = plan(vec![half(0), half(1), half(0), half(1)]).expect("fits");
        assert_eq!(plan.orders.iter().map(Vec::len).sum::<usize>(), 2);
        assert_eq!(plan.tensors["w"].1, [4, 2]);
    }

    #[test]
    fn gaps_overlaps_and_contradictions_are_errors() {
        let why = |offers: Vec<TensorOffer>| {
            plan(offers.into_iter().map(|t| offer(vec![t])).collect()).err()
        };
        let gap = why(vec![
            tensor("w", &[4], &[0], &[1]),
            tensor("w", &[4], &[2], &[2]),
        ]);
        assert!(gap.is_some_and(|e| e.contains("3 of the 4")));
        let twice = why(vec![
            tensor("w", &[4], &[0], &[3]),
            tensor("w", &[4], &[2], &[2]),
        ]);
        assert!(twice.is_some_and(|e| e.contains("overlap")));
        let other = why(vec![
            tensor("w", &[4], &[0], &[4]),
            tensor("w", &[5], &[0], &[5]),
        ]);
        assert!(other.is_some_and(|e| e.contains("[4] on rank 0") && e.contains("[5] on rank 1")));
        let mut changed = tensor("w", &[4], &[0], &[4]);
        changed.sample = Some(2);
        let values = why(vec![tensor("w", &[4], &[0], &[4]), changed.clone()]);
        assert!(values.is_some_and(|e| e.contains("other values on rank 0 than on rank 1")));
        // Of a buffer, the first rank's counts.
        let mut buffers = vec![tensor("w", &[4], &[0], &[4]), changed];
        buffers.iter_mut().for_each(|t| t.first = true);
        let offers = buffers.into_iter().map(|t| offer(vec![t])).collect();
        assert_eq!(plan(offers).expect("fits").orders, [vec![0], vec![]]);
        let part = |lr: f64| Offer {
            parts: vec![PartOffer {
                name: "optimizer".into(),
                kind: Kind::Shared,
                state: json!({ "dict": [["lr", lr]] }),
            }],
            tensors: Vec::new(),
        };
        let differs = plan(vec![part(0.5), part(0.25)]).err();
        assert!(
            differs.is_some_and(|e| e.contains("optimizer.lr differs between rank 0 and rank 1"))
        );
    }
}
