"""What every benchmark that starts rivals through psclust says of them."""

# psclust starts them, too, but they allocate memory as they do where it does not.
RIVAL = ("--env", "TF_CPU_ALLOCATOR_USE_BFC=false")
