"""The shell of a controller: sockets, disk, timers and ZooKeeper around the cores raft, controller and driver."""
