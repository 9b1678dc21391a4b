//! Procedural macros of ToRSh.
//!
//! [`derive(Module)`](macro@Module) is re-exported by `torsh-nn` (and by `torsh` as
//! `torsh::nn::Module`) beside the trait of the same name; depend on one of those
//! rather than on this crate.

mod attr;
mod by_name;
mod caller;
mod example;
mod expand;
mod functions;
mod manifest;
mod path;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Generates the walk over a module's fields that the trait `Module` requires.
///
/// ```ignore
/// use torsh::nn::{Buffer, Linear, Module, Parameter};
/// use torsh::{Result, Tensor};
///
/// #[derive(Module)]
/// struct Net {
///     fc: Linear,              // fc.weight, fc.bias
///     blocks: Vec<Linear>,     // blocks.0.weight, blocks.0.bias, blocks.1.weight, ..
///     scale: Parameter,        // scale
///     shift: Option<Buffer>,   // shift, or nothing when None
///     #[module(rename = "weight_ih_l0")]
///     w: Parameter,            // weight_ih_l0
///     #[module(skip)]
///     heads: usize,            // plain data
/// }
///
/// impl Module for Net {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.fc.forward(x)
///     }
/// }
/// ```
///
/// Implements `ModuleFields` (the walk, in declaration order) and `ModuleField` (so that the
/// type can be a field of another module). It does not implement `Module` itself: `forward` is
/// the author's.
///
/// # Fields
///
/// Every field that is not skipped has to implement `ModuleField`: `Parameter`, `Buffer`,
/// `Training`, every type that derives `Module`, `Box<dyn Module>`, and `Option`, `Box`, `Vec`,
/// arrays, tuples and string-keyed maps of those. Anything else, a plain `Tensor` included, is
/// a compile error, so that no weight is left out of `parameters()` unnoticed.
///
/// Fields of tuple structs are named `0`, `1`, ..; an enum shows the fields of the variant it
/// currently holds.
///
/// # Attributes
///
/// * `#[module(skip)]` on a field: plain data, not visited.
/// * `#[module(rename = "name")]` on a field: the name in `named_parameters` and `state_dict`.
/// * `#[module(crate = "path")]` on the type: where `ModuleFields` and its companions are
///   found. By default the path follows from the dependency on `torsh-nn` or `torsh` in
///   `Cargo.toml`, under whatever name it has there.
///
/// # Errors
///
/// A compile error for unions, enums without variants, lifetime parameters (a module owns its
/// fields), two fields of the same name, and unknown or malformed attributes.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::derive_module(&input, path::nn_path).into()
}

/// Makes the errors of a public function of the library name the line of the function's caller (its `#[track_caller]`,
/// which this includes, ends at closures and at functions without it).
///
/// ```ignore
/// #[torsh_tensor::names_caller]
/// pub fn first_half(x: &Tensor) -> Result<Tensor> {
///     x.narrow(0, 0, x.size(0)? / 2)
/// }
/// ```
///
/// An error whose place lies in the program already keeps it. Without an error it costs nothing. The body becomes a private
/// function of its own, a method where the function is one; an associated function without `self` needs
/// `#[names_caller(Self)]`. The body of a trait's method becomes a closure that is run at once.
#[proc_macro_attribute]
pub fn names_caller(argument: TokenStream, function: TokenStream) -> TokenStream {
    match caller::names_caller(argument.into(), function.into()) {
        Ok(tokens) => tokens.into(),
        Err(why) => quote::quote!(::core::compile_error!(#why);).into(),
    }
}

/// Gives methods of a type their free functions, as `torch.sum(x)` is `x.sum()`: one declaration for both.
///
/// A method that is marked `#[function]` has a function of the same name in a module `functions` behind the block. What is
/// written once
///
/// ```ignore
/// #[torsh_tensor::functions]
/// impl Tensor {
///     /// The elements of this tensor in reverse order along a dimension.
///     ///
///     /// ```
///     /// # use torsh_tensor::tensor;
///     /// assert_eq!(tensor![1, 2].reversed(0)?, tensor![2, 1]);
///     /// # Ok::<(), torsh_tensor::TorshError>(())
///     /// ```
///     #[function]
///     #[torsh_tensor::names_caller]
///     pub fn reversed(&self, dim: impl IntoDim) -> Result<Tensor> {
///         self.flip([dim.value()])
///     }
/// }
/// ```
///
/// is the method, and
///
/// ```ignore
/// pub(crate) mod functions {
///     use super::*;
///
///     /// The elements of `input` in reverse order along a dimension.
///     ///
///     /// ```
///     /// # use torsh_tensor::functional as F;
///     /// # use torsh_tensor::tensor;
///     /// assert_eq!(F::reversed(&tensor![1, 2], 0)?, tensor![2, 1]);
///     /// # Ok::<(), torsh_tensor::TorshError>(())
///     /// ```
///     #[track_caller]
///     pub fn reversed(input: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
///         input.reversed(dim)
///     }
/// }
/// ```
///
/// `#[function(name = other)]` gives the function another name, `input = query` its first argument, and with `operand` that
/// may be a number. An associated function keeps its arguments. The example must call the method: the function's example is
/// made from it. `functions(names)` names the module.
///
/// A crate above the type's writes `functions(trait OpsExt in my_ops)`: the methods are those of a trait of this name, which
/// other crates cannot implement, and `my_ops` is where examples find the functions. The block's documentation is the
/// trait's.
#[proc_macro_attribute]
pub fn functions(argument: TokenStream, block: TokenStream) -> TokenStream {
    match functions::functions(argument.into(), block.into()) {
        Ok(tokens) => tokens.into(),
        Err(why) => quote::quote!(::core::compile_error!(#why);).into(),
    }
}

/// Makes the call by name of an op from its record's schema and the function that computes it.
///
/// ```ignore
/// #[torsh_tensor::by_name(Tensor::narrow)]
/// pub static NARROW: OpRecord = OpRecord::new(
///     "narrow",
///     "A view of `length` indices of a dimension from `start` on.",
///     "(Tensor input, int dim, int start, int length)",
/// );
/// ```
///
/// adds `.by_name(|b| Tensor::narrow(b.tensor(0)?, b.int(1), b.int(2), b.int(3)).map(..))` behind `OpRecord::new(..)`. A
/// function that takes other arguments, or in another order, has them in parentheses:
///
/// * `f(weight, &dims, false)`: parameters of the schema by their names, `&` for a slice, other expressions as they are.
/// * `f(.., SumOptions)`: all parameters without a default that are not named, and options whose fields are all parameters that are not named. `size_average` and `reduce` are
///   read with `reduction`.
/// * `f(.., SortOptions { dim, flip: descending })`: options with these fields, each its parameter of the same name or
///   the one behind the colon; the others have their defaults.
///
/// # Errors
///
/// A compile error for a schema that is not a plain text, a parameter that the schema does not have, and one of the type
/// `Any`, of which nobody knows what it is.
#[proc_macro_attribute]
pub fn by_name(call: TokenStream, record: TokenStream) -> TokenStream {
    match by_name::by_name(call.into(), record.into()) {
        Ok(tokens) => tokens.into(),
        Err(why) => quote::quote!(::core::compile_error!(#why);).into(),
    }
}

/// A unit test that is compiled within its library, where the feature `unit-tests` is on, and run by a test program that
/// collects all of them (`crate::testing::UnitTest`). A crate whose compilation takes minutes has its unit tests so, because
/// `#[test]` compiles the whole library again. A test that a machine cannot run says so and returns: `ignore` and
/// `should_panic` are attributes of `#[test]` alone, and errors here.
#[proc_macro_attribute]
pub fn unit_test(_: TokenStream, function: TokenStream) -> TokenStream {
    let function = proc_macro2::TokenStream::from(function);
    let before_name = function.clone().into_iter();
    for token in before_name.take_while(|t| t.to_string() != "fn") {
        let attribute = token.to_string();
        if ["ignore", "should_panic"]
            .iter()
            .any(|a| attribute.contains(a))
        {
            let why = "`#[unit_test]` knows neither `ignore` nor `should_panic`: return from the test, or catch the panic";
            return quote::quote!(::core::compile_error!(#why);).into();
        }
    }
    let mut words = function.clone().into_iter();
    let is_fn = |t: &proc_macro2::TokenTree| t.to_string() == "fn";
    let name = words.find(is_fn).and_then(|_| words.next());
    quote::quote! {
        #function

        ::inventory::submit! {
            crate::testing::UnitTest::new(
                ::core::concat!(::core::module_path!(), "::", ::core::stringify!(#name)),
                || crate::testing::Outcome::expect_pass(#name()),
            )
        }
    }
    .into()
}
