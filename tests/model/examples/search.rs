use tidemark_model::model::Bounds;
use tidemark_model::runs::*;
use tidemark_model::world::Left;
fn main() {
    let q: &[(u8,u8,u8,u8,bool)] = &[(1,0,0,0,false),(1,1,0,0,false),(1,0,0,1,false),(1,0,0,1,true),(2,0,0,0,false),(1,0,1,1,false),(2,0,0,1,false),(1,0,0,2,false),(1,0,1,2,false),(2,0,1,1,false),(1,0,0,3,false),(2,0,0,1,true),(2,0,0,2,false),(2,0,1,2,false),(1,0,2,2,false)];
    let only = std::env::args().nth(1).unwrap_or_default();
    for m in MUTATIONS.iter().filter(|m| m.name.contains(&only)) {
        let mut hit = false;
        for &(changes,replays,handoffs,faults,queues) in q {
            let left = Left { changes, replays, handoffs, faults };
            let m = Mutation { bounds: Bounds { left, queues, definitions: false, cancels: true }, ..*m };
            let (e, caught) = m.explore();
            if let Some(by) = caught {
                println!("{}: {:?} q={queues} {} steps {} states {:.1}s -- {by}", m.name, (changes,replays,handoffs,faults), e.violations[0].moves.len(), e.states, e.took.as_secs_f32());
                hit = true;
                break;
            }
        }
        if !hit { println!("{}: NOT CAUGHT", m.name); }
    }
}
