//! Modules that are a `Sequential` under a name of their own.

/// Makes a module with one field `layers: Sequential`, whose children, names and hooks are its own, as those of a Python
/// class that inherits from `nn.Sequential`.
macro_rules! sequence {
    ($name:ident) => {
        impl torsh_nn::ModuleField for $name {
            fn visit_field<'a>(
                &'a self,
                name: &str,
                visitor: &mut dyn FnMut(&str, torsh_nn::FieldRef<'a>),
            ) {
                visitor(name, torsh_nn::FieldRef::Module(self));
            }

            fn visit_field_mut(
                &mut self,
                name: &str,
                visitor: &mut dyn FnMut(&str, torsh_nn::FieldMut<'_>),
            ) {
                visitor(name, torsh_nn::FieldMut::Module(self));
            }
        }

        impl torsh_nn::ModuleFields for $name {
            fn visit_fields<'a>(&'a self, visitor: &mut dyn FnMut(&str, torsh_nn::FieldRef<'a>)) {
                torsh_nn::ModuleFields::visit_fields(&self.layers, visitor);
            }

            fn visit_fields_mut(&mut self, visitor: &mut dyn FnMut(&str, torsh_nn::FieldMut<'_>)) {
                torsh_nn::ModuleFields::visit_fields_mut(&mut self.layers, visitor);
            }

            fn type_name(&self) -> &'static str {
                stringify!($name)
            }
        }
    };
    ($name:ident forwards) => {
        $crate::models::blocks::sequence!($name);

        impl torsh_nn::Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(
                &self,
                x: &torsh_tensor::Tensor,
            ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                torsh_nn::Module::forward(&self.layers, x)
            }
        }
    };
}

pub(crate) use sequence;
