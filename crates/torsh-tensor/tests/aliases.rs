//! Names that PyTorch has for ops of other names.

use torsh_tensor::{Tensor, Value, ops};

#[test]
fn each_alias_is_a_name_of_one_op() {
    let names = ops::names();
    for (i, a) in ops::aliases().iter().enumerate() {
        assert!(
            !names.contains(&a.name),
            "{} has a record of its own",
            a.name
        );
        assert!(
            names.contains(&a.base),
            "{} is {}, which is no op",
            a.name,
            a.base
        );
        assert!(
            ops::aliases()[..i].iter().all(|b| b.name != a.name),
            "{} twice",
            a.name
        );
        let found = ops::find(a.name).expect("it is found");
        assert!(found.iter().all(|r| r.base_name() == a.base));
        for (_, own) in a.parameters {
            let takes = |r: &&torsh_tensor::record::OpRecord| r.schema.contains(&format!(" {own}"));
            assert!(found.iter().any(takes), "{} has no parameter {own}", a.base);
        }
    }
}

#[test]
fn parameters_go_by_the_names_of_the_alias() {
    let x = Tensor::from_data(&[1i64, 2, 3], [3, 1]).expect("a tensor");
    let axes = [("axis0", Value::Int(0)), ("axis1", Value::Int(1))];
    let y = ops::call("swapaxes", &[Value::from(&x)], &axes).expect("two dimensions");
    assert_eq!(y.tensors()[0].dims(), [1, 3]);
    assert_eq!(x.swapaxes(0, 1).expect("two dimensions").dims(), [1, 3]);
    let axes = [("axis0", Value::Int(0)), ("dim1", Value::Int(5))];
    let e = ops::call("swapaxes", &[Value::from(&x)], &axes).unwrap_err();
    assert!(e.to_string().starts_with("swapaxes: "), "{e}");
}
