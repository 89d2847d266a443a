//! I12: from every state that can be reached, rest can be reached without a further fault, change or hand-off.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::Model;

use crate::model::Protocol;
use crate::moves::Action;
use crate::world::State;

/// What was found.
pub struct WaysToRest {
    /// Distinct states.
    pub states: usize,
    /// The first state from which there is no way, and how it was reached.
    pub stuck: Option<(Vec<Action>, State)>,
}

/// Explores everything, then goes back from the states at rest along the moves that need nothing from outside.
pub fn ways_to_rest(protocol: &Protocol) -> WaysToRest {
    let mut ids: HashMap<u64, u32> = HashMap::new();
    let (mut found_from, mut rests): (Vec<u32>, Vec<bool>) = (vec![], vec![]);
    let mut progress: Vec<(u32, u32)> = vec![];
    let mut queue = VecDeque::new();
    for state in protocol.init_states() {
        ids.insert(fingerprint(&state), 0);
        found_from.push(0);
        rests.push(state.at_rest());
        queue.push_back((0, state));
    }
    let mut actions = vec![];
    while let Some((id, state)) = queue.pop_front() {
        protocol.actions(&state, &mut actions);
        for action in actions.drain(..) {
            let Some(next) = protocol.next_state(&state, action) else { continue };
            let new = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            let next_id = *ids.entry(fingerprint(&next)).or_insert(new);
            if action.is_progress() && next_id != id {
                progress.push((next_id, id));
            }
            if next_id == new {
                found_from.push(id);
                rests.push(next.at_rest());
                queue.push_back((next_id, next));
            }
        }
    }
    progress.sort_unstable();
    let mut reached: Vec<usize> = (0..rests.len()).filter(|id| rests[*id]).collect();
    while let Some(id) = reached.pop() {
        let first = progress.partition_point(|(to, _)| (*to as usize) < id);
        for (_, from) in progress[first..].iter().take_while(|(to, _)| *to as usize == id) {
            if !std::mem::replace(&mut rests[*from as usize], true) {
                reached.push(*from as usize);
            }
        }
    }
    let stuck = rests.iter().position(|rests| !rests);
    let stuck = stuck.and_then(|id| trace(protocol, &found_from, &ids, u32::try_from(id).ok()?));
    WaysToRest { states: rests.len(), stuck }
}

fn trace(
    protocol: &Protocol,
    found_from: &[u32],
    ids: &HashMap<u64, u32>,
    mut id: u32,
) -> Option<(Vec<Action>, State)> {
    let mut path = vec![];
    while id != 0 {
        path.push(id);
        id = found_from[id as usize];
    }
    let mut state = protocol.init_states().pop()?;
    let mut taken = vec![];
    for id in path.into_iter().rev() {
        let mut actions = vec![];
        protocol.actions(&state, &mut actions);
        let steps = actions.into_iter().filter_map(|action| Some((action, protocol.next_state(&state, action)?)));
        let (action, next) = { steps }.find(|(_, next)| ids.get(&fingerprint(next)) == Some(&id))?;
        taken.push(action);
        state = next;
    }
    Some((taken, state))
}

fn fingerprint(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}
