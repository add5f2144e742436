// Package discovery is the Discovery Service: which information services know something
// of an object, and the history of that object through its containers, in one request. Its
// schema is that of Zhao et al., "A Scalable and High-efficiency Discovery Service In IoT
// Using a New Storage Schema" (COMPSAC 2013); its tracing is a corrected form of that
// paper's recursive discovery.
//
// # Rows
//
// An event is written to the row of every object it is about (Cells). A row is read the
// newest cell first. Where an object is stands apart from what it contains, so that the
// thousands of loadings of a truck are not read for each parcel that was on it; and apart
// from where and how it was seen meanwhile, so that its place at any instant is told by the
// few cells of its last birth or end and of its last stays.
//
// # Tracing
//
// An object is in at most one container by aggregation and in at most one by association,
// independently. It is born by an ObjectEvent ADD or as the output of a transformation, and
// ends by an ObjectEvent DELETE or as an input. A container p releases a kind at t by a
// DELETE of that kind with parent p and no children, or by its own end.
//
// trace = walk([object], from, to): the cells of the row are played in the order of their
// instants. What was before the window is played too, but only for the state it leaves
// (hold). When the object leaves a container, the container's own row is walked for the time
// that the object was inside, and so on upwards. Within an instant the next event is the one
// of lowest rank, told anew after each, ties by event ID: birth; DELETE from the container it
// is in; ADD or OBSERVE where it is in no other; plain events; ADD or OBSERVE to another one;
// DELETE from where it is not; end, and of a container that all leave it.
//
// What cannot be as the row says is believed as far as it goes, and told as a Warning:
//
//	unmatched_delete     DELETE from a container that the object is not in
//	double_add           ADD to the container that it is in
//	lost_add             OBSERVE in a container that it was never added to
//	lost_delete          it came into another one, or again, without having left
//	commissioned_inside  born while it is in a container
//	cycle                a container is, over some others, in itself
//
// Not covered are class-level quantities and transformations whose inputs and outputs are
// published apart, joined by a transformationID.
package discovery
