# Reads records by the deserializers of confluent-kafka. Each line of the input is a topic and a record in hexadecimal.
import sys
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

registry = SchemaRegistryClient({"url": sys.argv[1]})

# The type of the reader: the message that is read is the one that the record names, which has the same fields.
file = descriptor_pb2.FileDescriptorProto(name="reader.proto", syntax="proto3")
reader = file.message_type.add(name="Reader")
reader.field.add(name="card", number=1, type=9, label=1)
reader.field.add(name="cents", number=2, type=3, label=1)
reader.oneof_decl.add(name="_note")
reader.field.add(name="note", number=3, type=9, label=1, proto3_optional=True, oneof_index=0)
pool = descriptor_pool.DescriptorPool()
pool.Add(file)
Reader = message_factory.GetMessageClass(pool.FindMessageTypeByName("Reader"))

avro = AvroDeserializer(registry)
json = JSONDeserializer(None, schema_registry_client=registry)
protobuf = ProtobufDeserializer(Reader, {"use.deprecated.format": False}, registry)


def shown(event):
    if not isinstance(event, dict):
        event = {"card": event.card, "cents": event.cents, "note": event.note if event.HasField("note") else None}
    return repr([event["card"], event["cents"], event["note"]])


for line in sys.stdin:
    topic, record = line.split()
    read = {"a": avro, "j": json, "p": protobuf}[topic[0]]
    print(topic, shown(read(bytes.fromhex(record), SerializationContext(topic, MessageField.VALUE))))
