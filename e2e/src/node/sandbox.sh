# First process of a node: the mounts that make the node's own /run and /var, then the duty of an init, to reap.
# All of it is in a mount namespace of its own and goes with it. Arguments: the node's folder.
set -eu
mount --make-rshared /
mkdir -p "$1/containerd" "$1/kubelet"
# Sockets, pod namespaces, shims.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/bed/disk /run/bed/var/upper /run/bed/var/work /run/netns /run/lock
mount --bind "$1" /run/bed/disk
# What would be written to the machine's /var lands in memory, but for what is large.
mount -t overlay -o lowerdir=/var,upperdir=/run/bed/var/upper,workdir=/run/bed/var/work overlay /var
for large in containerd kubelet; do
    mkdir -p "/var/lib/$large"
    mount --bind "/run/bed/disk/$large" "/var/lib/$large"
done
mkdir -p /var/log/pods /var/log/containers
hostname "$2"
echo ready > /run/bed/disk/sandbox
sleep infinity &
wait
