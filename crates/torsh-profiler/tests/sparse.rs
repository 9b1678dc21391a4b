//! Profiles of programs with sparse tensors.

use torsh_profiler::{EventKind, ProfileOptions, profile_with};
use torsh_sparse::{self as sparse, SparseExt};
use torsh_tensor::{Result, ones, tensor};

#[test]
fn products_and_their_gradients_are_seen() -> Result<()> {
    let a = tensor![[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]].to_sparse_csr()?;
    let (a, x) = (
        a.detach().requires_grad_(true),
        ones(&[2, 4]).requires_grad_(true),
    );
    let options = ProfileOptions::new()
        .record_shapes(true)
        .profile_memory(true);
    let prof = profile_with(options, || {
        sparse::mm(&a, &x)?.matmul(&x.t()?)?.sum()?.backward()
    })?;
    assert_eq!(a.grad().map(|g| g.layout()), Some(a.layout()));
    let events = prof.events();
    let mm = events.iter().find(|e| e.name == "aten::sparse_mm");
    let mm = mm.expect("the function");
    assert_eq!(mm.kind, EventKind::Op);
    assert_eq!(mm.input_shapes, [vec![3, 2], vec![2, 4]]);
    // What it is made of lies in it: the kernel among them, which makes the result.
    let inside: Vec<&str> = mm
        .children
        .iter()
        .map(|&i| events[i].name.as_str())
        .collect();
    assert!(inside.contains(&"aten::_sparse_product"), "{inside:?}");
    assert!(mm.allocated_bytes >= 3 * 4 * 4, "{}", mm.allocated_bytes);
    let backward = events.iter().filter(|e| e.kind == EventKind::Backward);
    let names: Vec<&str> = backward.map(|e| e.name.as_str()).collect();
    assert!(names.iter().any(|n| n.contains("Sparse")), "{names:?}");
    let text = prof
        .key_averages()
        .table("self_cpu_time_total", usize::MAX)?;
    assert!(text.contains("aten::sparse_mm"), "{text}");
    Ok(())
}
