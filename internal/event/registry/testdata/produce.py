# Writes what the serializers of confluent-kafka make of events, and registers their schemas.
import sys
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

registry = SchemaRegistryClient({"url": sys.argv[1]})

AVRO = """{"type":"record","name":"Payment","fields":[{"name":"device","type":{"type":"record","name":"Device","fields":[{"name":"os","type":"string"}]}},
{"name":"card","type":"string"},{"name":"cents","type":"long"},{"name":"note","type":["null","string"],"default":null}]}"""
JSON = """{"title":"Payment","type":"object","properties":{"card":{"type":"string"},"cents":{"type":"integer"},"note":{"type":"string"}}}"""


def protobuf_type():
    """Payment is the second message of its file, and Event is declared inside it."""
    file = descriptor_pb2.FileDescriptorProto(name="payment.proto", syntax="proto3")
    file.message_type.add(name="Device").field.add(name="os", number=1, type=9, label=1)
    payment = file.message_type.add(name="Payment")
    event = payment.nested_type.add(name="Event")
    event.field.add(name="device", number=4, type=11, label=1, type_name=".Device")
    event.field.add(name="card", number=1, type=9, label=1)
    event.field.add(name="cents", number=2, type=3, label=1)
    event.oneof_decl.add(name="_note")
    event.field.add(name="note", number=3, type=9, label=1, proto3_optional=True, oneof_index=0)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    device = message_factory.GetMessageClass(pool.FindMessageTypeByName("Device"))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Payment.Event")), device


Event, Device = protobuf_type()


def message(event, _):
    m = Event(card=event["card"], cents=event["cents"], device=Device(os="linux"))
    if "note" in event:
        m.note = event["note"]
    return m


avro = AvroSerializer(registry, AVRO, lambda e, _: {**e, "device": {"os": "linux"}})
json = JSONSerializer(JSON, registry)
protobuf = ProtobufSerializer(Event, registry, {"use.deprecated.format": False})
for card, cents, note in (("a", 5, "n"), ("é", -7, None), ("", 1 << 40, "")):
    event = {"card": card, "cents": cents} | ({} if note is None else {"note": note})
    for topic, serialize in (("avro", avro), ("json", json), ("protobuf", lambda e, c: protobuf(message(e, c), c))):
        print(topic, serialize(event, SerializationContext(topic, MessageField.VALUE)).hex())
